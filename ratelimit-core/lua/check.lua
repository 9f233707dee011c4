-- check.lua: judges requests, each a group of limits, in order and at one instant; charges each request that passes.
-- KEYS    one for each distinct state
-- ARGV    1: little-endian doubles:
--         the instant in microseconds, or -1 for the server's clock; the number of policies;
--         for each policy: number of its algorithm, max, window in microseconds (for a window with a key of its own, how long the
--         key is kept), shape (sub-windows, burst, or the first instant of a window with a key of its own);
--         for each key: number of its policy, and the sum of the costs of its requests, or -1 if one of them is a peek, a group,
--         or under another policy
--         2: little-endian doubles, for each request its header, then for each of its limits: number of the key, number of the
--         policy, which is negative for a shadow limit of a group, and cost. The header is the number of limits, negative for a
--         peek, and one of these is added:
--         256   a part of a denied group, which is not charged
--         512   as many units as fit are charged, at most the cost
--         768   the units are charged beyond the limit, to one key under two policies: its own, and one with the largest limit
--         1024  a wait, of a token bucket: as 768, with the longest wait in microseconds in place of the first cost
--         3: little-endian doubles, for each policy: the length of its block in microseconds, 0 for none; absent or empty
--         if no policy has a block
--         4: what the calling process reports of its slots (concurrency.lua); absent or empty if no key has slots
-- Reply   one string: the instant in microseconds, a little-endian double; then for each key the state that was found there:
--         '.' for none, '!' for a corrupt state, which now expires after one window, and the summary of a log
--         (sliding_window_log.lua, log.summarize); then, unless all requests pass, a verdict for each request: '1' it passes,
--         '0' it is denied, '-' a state of it is corrupt. If the verdict does not say what became of each key, '+' is before it
--         and details are behind it, 8 bytes for each limit: 'b' and the end of a block that begins or is cut (7 bytes), or 'c'
--         and the units charged to the key (7 bytes)
-- Twin    src/algorithm/judge.rs, src/algorithm/group.rs
-- When the sum of a key's costs fits, each of its requests passes in its turn. So each key is charged once with the sum
-- here. That decides nearly every call; open.lua and the files behind it decide what is left. Functions are defined behind this
-- part where possible, because Redis runs every definition at each call.
local stored, args, left -- by number of the key: the value found, and '0' if its requests are not all admitted yet
-- script.rs declares `only_logs` in front of this file: whether no state is a string. The step of a log reads the log itself.
local all_denied = (ARGV[3] or '') == '' -- whether the sum surely does not fit at any key in `left`, and no block begins
if #KEYS > 1 or policies > 1 then
  stored = only_logs and {} or call('MGET', unpack(KEYS))
  -- With one policy and one cost for all keys, the numbers of the keys repeat every 16 bytes from byte 49 on. Then the
  -- numbers of the first key stand for all.
  if policies > 1 or string.sub(ARGV[1], 49, -17) ~= string.sub(ARGV[1], 65) then
    args = { decode('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
  end
end

for key = 1, #KEYS do
  local value, fits, bytes, ttl
  if args then
    local place = 1 + 4 * policies + 2 * key
    local policy = 4 * args[place]
    algorithm, max, window, shape = args[policy - 1], args[policy], args[policy + 1], args[policy + 2]
    cost = args[place + 1]
  end
  if stored then
    value = stored[key]
  elseif not only_logs then
    value = redis.pcall('GET', KEYS[1]) -- a table, of length 0, for a value of another type
  end
  if cost >= 0 then
--STEP
  end
  if not bytes then
    all_denied = all_denied and (fits or value and fits == false) -- a log that passes is written by its step
  elseif not ttl then
    call('SETRANGE', KEYS[key], '8', bytes)
  elseif value then
    call('SET', KEYS[key], bytes, 'PX', math.max(math.ceil(ttl / 1000) + 1000, at_least))
  elseif not call('SET', KEYS[key], bytes, 'PX', math.max(math.ceil(ttl / 1000) + 1000, at_least), 'NX') then
    fits, all_denied = nil, false -- MGET finds nothing where the value is of another type
  end
  if not stored then
    if fits then
      return pack('<d', now) .. (value or '.')
    elseif all_denied and #ARGV[2] == 32 then
      return pack('<d', now) .. value .. '0'
    end
    stored = { type(value) == 'string' and value }
  end
  if not fits then
    left = left or {}
    left[key] = '0'
  elseif not value then
    stored[key] = '.'
  end
end
if not left then
  return pack('<d', now) .. table.concat(stored or {})
elseif all_denied and #ARGV[2] == 32 * #KEYS then -- every request has a key of its own
  for key = 1, #KEYS do
    left[key] = left[key] or '1'
  end
  return pack('<d', now) .. table.concat(stored) .. table.concat(left, '', 1, #KEYS)
end

