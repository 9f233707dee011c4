-- quick/check.lua: the fast path of check.lua: charge each key whose requests pass together. Nearly every call ends here,
-- before the other functions are defined: Redis executes every definition at each call, which takes time.
-- KEYS    one for each distinct count
-- ARGV    1: little-endian doubles: the instant in microseconds or -1 for the server's clock; the number of policies; then
--         for each policy: number of its algorithm, max, window in microseconds, sub-windows or burst; then for each
--         key: number of its policy, and the total cost of its requests, or -1 if one of them peeks, has another limit
--         too, or checks the key under another policy
--         2: little-endian doubles, for each request: number of its limits, negative to peek; then for each limit:
--         number of its key, number of its policy, cost
-- Reply   one string: the instant in microseconds, a little-endian double; then for each key the state found there: '.' if it
--         was absent, '!' if it is corrupt (it then expires after one window and a second), a summary of a log
--         (sliding_window_log.summarize); then, unless all requests pass, one character per request: '1' passed, '0' denied,
--         '-' not judged because of a corrupt state
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

-- By number of the key: total and policy of the keys that the fast path leaves to check.lua.
local pending, pending_policy
for key = 1, #KEYS do
  local policy, total = policies[args[first]], args[first + 1]
  first = first + 2
  local fast_step = fast_steps[policy.algorithm]
  if total < 0 or not fast_step or not fast_step(key, policy, total) then
    if not pending then
      pending, pending_policy = {}, {}
    end
    pending[key], pending_policy[key] = total, policy
  end
end

-- One string, which is faster than an array for the server and for the client.
local function reply(verdicts)
  for key = 1, #KEYS do
    stored[key] = stored[key] or '.'
  end
  return pack('<d', now) .. table.concat(stored) .. verdicts
end

if not pending then
  return reply('')
end

