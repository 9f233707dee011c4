-- quick/check.lua: the beginning of check.lua, and nearly always all of it: charges keys of which so little is asked that
-- everything passes. Functions that are defined take time at each call, so the others come behind.
-- KEYS    one for each distinct count
-- ARGV    1: little-endian doubles: the instant in microseconds or -1 for the server's clock; the number of policies; then
--         for each policy: number of its algorithm, max, window in microseconds, sub-windows or burst; then for each
--         key: number of its policy, and the units that requests about it alone would take together, or -1 when there
--         are others about it
--         2: little-endian doubles, for each request: how many limits it has, negative to peek; and for each of them:
--         numbers of its key and of its policy, and its cost
-- Reply   one string: the instant in microseconds, a little-endian double; then for each key the state that was found there,
--         '.' when there was nothing, '!' when the value is not ours, which now expires after one window, and of a log what
--         matters of it (sliding_window_log.tell); then, unless all requests pass, a character for each: '1' it passes, '0'
--         it is denied, '-' it could not be judged
local policies, first = {}, 3
for i = 1, args[2] do
  policies[i] = {
    algorithm = args[first],
    max = args[first + 1],
    window = args[first + 2],
    sub_windows = args[first + 3],
    burst = args[first + 3],
  }
  first = first + 4
end

-- By number of the key: policy and units of those that have to be looked at more closely.
local left, left_under
for key = 1, #KEYS do
  local policy, total = policies[args[first]], args[first + 1]
  first = first + 2
  local take = takes[policy.algorithm]
  if total < 0 or not take or not take(key, policy, total) then
    if not left then
      left, left_under = {}, {}
    end
    left[key], left_under[key] = total, policy
  end
end

-- Quicker than an array, for the client as well.
local function reply(verdicts)
  for key = 1, #KEYS do
    stored[key] = stored[key] or '.'
  end
  return pack('<d', now) .. table.concat(stored) .. verdicts
end

if not left then
  return reply('')
end

