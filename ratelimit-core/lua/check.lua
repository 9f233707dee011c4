-- check.lua: judge requests, each a group of limits, in order and at one instant; charge each that passes whole.
-- KEYS    one for each distinct count
-- ARGV    1: little-endian doubles: the instant in microseconds or 0 for the server's clock; the number of policies; then
--         for each policy: number of its algorithm, max, window in microseconds, sub-windows or burst; then for each
--         request: how many limits it has, negative to peek; and for each of them: numbers of its key and of its
--         policy, and its cost
-- Reply   little-endian doubles: the instant in microseconds; then for each limit of each request: remaining, reset_after
--         and retry_after in microseconds (-1: not violated, -2: can never pass, -3: the value at its key is not ours, so
--         nothing was decided about the request; the value now expires after one window)
-- Twin    src/algorithm.rs, decide; same names, same order. A request after another in one call sees what the one
--         before it was charged, as if it had come in a call of its own at the same instant.
local args = { struct.unpack('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
args[#args] = nil -- the position behind the last, which unpack adds
local now, at_least = clock(args[1])

local policies, first = {}, 3
for i = 1, args[2] do
  policies[i] = {
    step = algorithms[args[first]],
    max = args[first + 1],
    window = args[first + 2],
    sub_windows = args[first + 3],
    burst = args[first + 3],
  }
  first = first + 4
end

-- By number of the key. What is read here is false where there is no string: nothing, or something else.
local stored = #KEYS > 1 and redis.call('MGET', unpack(KEYS)) or {}
local states, policy_of, foreign = {}, {}, {}

-- Loads and settles the state at a key; false when the value there is not ours.
local function open(key, policy)
  local state, failure = false, nil
  policy_of[key] = policy
  if not foreign[key] then
    state, failure = policy.step.load(KEYS[key], policy, stored[key])
    if state then
      state.keep = policy.step.settle(state, policy, now)
    else
      state, foreign[key] = false, true
    end
  end
  states[key] = state
  return state, failure
end

-- Judges every request; returns the reply, or nil and the error of the server.
local function judge()
  local reply, n = { now }, 1
  local request = first
  while args[request] do
    local limits = args[request]
    local peek = limits < 0
    local from, to = request + 1, request + (peek and -limits or limits) * 3
    local usable, allowed = true, true
    for member = from, to, 3 do
      local key, cost = args[member], args[member + 2]
      local state = states[key]
      if state == nil then
        local failure
        state, failure = open(key, policies[args[member + 1]])
        if failure then
          return nil, failure
        end
      end
      if not state then
        usable = false
      elseif state.request == request then
        state.total = state.total + cost
      else
        state.request, state.total = request, cost
      end
    end
    if usable then
      for member = from, to, 3 do
        local state, policy = states[args[member]], policies[args[member + 1]]
        allowed = allowed and policy.step.fits(state, policy, now, state.total)
      end
      if not peek then
        for member = from, to, 3 do
          local state, policy = states[args[member]], policies[args[member + 1]]
          if allowed and state.request == request then
            policy.step.charge(state, policy, now, state.total)
            state.request, state.keep = nil, true
          end
          state.save = state.keep
        end
      end
    end
    for member = from, to, 3 do
      local state, policy = states[args[member]], policies[args[member + 1]]
      if usable then
        local step = policy.step
        reply[n + 1] = step.remaining(state, policy, now)
        reply[n + 2] = step.reset_after(state, policy, now)
        if allowed or step.fits(state, policy, now, state.total) then
          reply[n + 3] = -1
        else
          reply[n + 3] = step.retry_after(state, policy, now, state.total) or -2
        end
      else
        reply[n + 1], reply[n + 2], reply[n + 3] = 0, 0, state and -1 or -3
      end
      n = n + 3
    end
    request = to + 1
  end
  return struct.pack('<' .. string.rep('d', n), unpack(reply, 1, n))
end

-- Some values show only while they are used that they are not ours. Nothing was written yet, so what was decided with
-- them is decided again without.
local reply, failure, again
repeat
  reply, failure = judge()
  if failure then
    return failure
  end
  again = false
  for key, state in pairs(states) do
    if state and state.foreign then
      foreign[key], again = true, true
    end
  end
  if again then
    states = {}
  end
until not again

for key, state in pairs(states) do
  local policy = policy_of[key]
  if not state then
    local ttl, window = redis.call('PTTL', KEYS[key]), millis(policy.window, at_least)
    if ttl < 0 or ttl > window then
      redis.call('PEXPIRE', KEYS[key], window)
    end
  elseif state.save then
    policy.step.save(state, KEYS[key], policy, now, at_least)
  end
end
return reply
