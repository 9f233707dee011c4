-- calendar.lua: behind prelude.lua in scripts with fixed windows: puts the windows that have the instant in place of the guessed ones.
-- ARGV    5: little-endian doubles: the instants from which and before which all calendar windows of the call hold; then for each
--         policy with a calendar: its number, the first instant of the window before, and the end of the window behind. Absent if no
--         policy has a calendar. Then ARGV[3] and ARGV[4] may be empty for absent
-- Reply   the instant alone if it is in none of these windows: nothing is decided
if ARGV[5] then
  local from, before = decode('<dd', ARGV[5])
  if now < from or now >= before then
    for place = 17, #ARGV[5], 24 do
      local number, earliest, latest = decode('<ddd', ARGV[5], place)
      local length, first = decode('<dd', ARGV[1], 32 * number + 1)
      if now < earliest or now >= latest then
        return pack('<d', now)
      elseif now < first then
        first, length = earliest, first - earliest
      elseif now >= first + length then
        first, length = first + length, latest - first - length
      end
      ARGV[1] = string.sub(ARGV[1], 1, 32 * number) .. pack('<dd', length, first) .. string.sub(ARGV[1], 32 * number + 17)
    end
    window, shape = decode('<dd', ARGV[1], 33)
  end
end

