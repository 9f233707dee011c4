-- within.lua: behind prelude.lua in scripts with fixed windows: whether the instant lies in the windows that the process computed.
-- ARGV    5: little-endian doubles: the instants from which and before which all calendar windows of the call hold; absent if
--         no policy has one. Then ARGV[3] and ARGV[4] may be empty for absent
-- Reply   the instant alone if it is outside: nothing is decided, and the process sends the call again with the windows of that
--         instant
if ARGV[5] then
  local from, before = decode('<dd', ARGV[5])
  if now < from or now >= before then
    return pack('<d', now)
  end
end

