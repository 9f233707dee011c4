-- check.lua: judge a group of limits at one instant; when all pass, charge all.
-- KEYS    one for each distinct count
-- ARGV    1: little-endian doubles: the instant in microseconds or 0 for the server's clock; 1 to peek, 0 to check; then
--         for each limit: number of its key, number of its algorithm, max, window in microseconds, sub-windows or
--         burst, cost
-- Reply   little-endian doubles: the instant in microseconds; 1 when the group passed, else 0; then for each limit:
--         remaining, reset_after and retry_after in microseconds (-1: not violated, -2: can never pass).
--         Or one double, -n: the value at the key of limit n is not ours; it now expires after one window.
-- Twin    src/algorithm.rs, decide; same names, same order.
local argv = ARGV[1]
local injected, peek = struct.unpack('<dd', argv)
local now, at_least = clock(injected)

-- The value of a limit is not ours: it expires after one window, and nothing is decided.
local function foreign(member, key, window)
  local ttl = redis.call('PTTL', key)
  if ttl < 0 or ttl > millis(window, at_least) then
    redis.call('PEXPIRE', key, millis(window, at_least))
  end
  return struct.pack('<d', -member)
end

local members, states, totals, keep = {}, {}, {}, {}
local position = 17
while position <= #argv do
  local state, algorithm, max, window, shape, cost
  state, algorithm, max, window, shape, cost, position = struct.unpack('<dddddd', argv, position)
  local policy = {
    step = algorithms[algorithm],
    max = max,
    window = window,
    sub_windows = shape,
    burst = shape,
    state = state,
    cost = cost,
  }
  members[#members + 1] = policy
  if not states[state] then
    local loaded, failure = policy.step.load(KEYS[state], policy)
    if failure then
      return failure
    elseif not loaded then
      return foreign(#members, KEYS[state], window)
    end
    states[state], totals[state], keep[state] = loaded, 0, policy.step.settle(loaded, policy, now)
  end
  totals[state] = totals[state] + cost
end

local allowed = true
for _, policy in ipairs(members) do
  policy.fits = policy.step.fits(states[policy.state], policy, now, totals[policy.state])
  allowed = allowed and policy.fits
end

local charged = {}
if allowed and peek == 0 then
  for _, policy in ipairs(members) do
    local state = policy.state
    if not charged[state] then
      charged[state] = true
      policy.step.charge(states[state], policy, now, totals[state])
    end
  end
end

local reply = { now, allowed and 1 or 0 }
for _, policy in ipairs(members) do
  local state = states[policy.state]
  local n = #reply
  reply[n + 1] = policy.step.remaining(state, policy, now)
  reply[n + 2] = policy.step.reset_after(state, policy, now)
  reply[n + 3] = policy.fits and -1 or policy.step.retry_after(state, policy, now, totals[policy.state]) or -2
end
for member, policy in ipairs(members) do
  if states[policy.state].foreign then
    return foreign(member, KEYS[policy.state], policy.window)
  end
end
if peek == 0 then
  for _, policy in ipairs(members) do
    local state = policy.state
    if charged[state] or keep[state] then
      policy.step.save(states[state], KEYS[state], policy, now, at_least)
      charged[state], keep[state] = nil, nil
    end
  end
end
return struct.pack('<' .. string.rep('d', #reply), unpack(reply))
