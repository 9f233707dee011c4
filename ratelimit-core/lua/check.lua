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

-- By number of the key: its state, settled, or false when the value there is not ours; and a policy that such a key is
-- under. A state's `keep` says whether settling or charging has to be kept, and `save` whether it has to be written.
local states
local foreign = {}

-- Loads and settles what is stored at a key; returns the server's error, if any.
local function open(key, policy)
  local state, failure = false, nil
  if not foreign[key] then
    state, failure = policy.step.load(key, policy)
    if state then
      state.keep = policy.step.settle(state, policy)
    else
      state, foreign[key] = false, policy
    end
  end
  states[key] = state
  return failure
end

-- Judges a request of several limits, or one that only looks, or one that cannot be judged.
local function judge_group(reply, n, request, to, peek)
  local allowed, usable = true, true
  for member = request + 1, to, 3 do
    local state, cost = states[args[member]], args[member + 2]
    if not state then
      usable = false
    elseif state.request == request then
      state.total = state.total + cost
    else
      state.request, state.total = request, cost
    end
  end
  if not usable then
    for member = request + 1, to, 3 do
      reply[n + 1], reply[n + 2], reply[n + 3] = 0, 0, states[args[member]] and -1 or -3
      n = n + 3
    end
    return
  end
  for member = request + 1, to, 3 do
    local state, policy = states[args[member]], policies[args[member + 1]]
    allowed = allowed and policy.step.fits(state, policy, state.total)
  end
  if not peek then
    for member = request + 1, to, 3 do
      local state, policy = states[args[member]], policies[args[member + 1]]
      if allowed and state.request == request then
        policy.step.charge(state, policy, state.total)
        state.request, state.keep = nil, true
      end
      state.save = state.save or state.keep
    end
  end
  for member = request + 1, to, 3 do
    local state, policy = states[args[member]], policies[args[member + 1]]
    local step = policy.step
    local fits = allowed or step.fits(state, policy, state.total)
    reply[n + 1] = step.remaining(state, policy)
    reply[n + 2] = step.reset_after(state, policy)
    reply[n + 3] = fits and -1 or step.retry_after(state, policy, state.total) or -2
    n = n + 3
  end
end

-- Judges a request of one limit.
local function judge_one(reply, n, state, policy, cost)
  local step, retry_after = policy.step, -1
  if step.fits(state, policy, cost) then
    step.charge(state, policy, cost)
    state.keep = true
  else
    retry_after = step.retry_after(state, policy, cost) or -2
  end
  state.save = state.save or state.keep
  -- One after the other: a table that grows in order is quicker.
  reply[n + 1] = step.remaining(state, policy)
  reply[n + 2] = step.reset_after(state, policy)
  reply[n + 3] = retry_after
end

-- Judges any request; returns the server's error, if any.
local function judge(reply, n, request, to)
  local limits = args[request]
  for member = request + 1, to, 3 do
    local key = args[member]
    if states[key] == nil then
      local failure = open(key, policies[args[member + 1]])
      if failure then
        return failure
      end
    end
  end
  local state = states[args[request + 1]]
  if limits == 1 and state then
    judge_one(reply, n, state, policies[args[request + 2]], args[request + 3])
  else
    judge_group(reply, n, request, to, limits < 0)
  end
end

-- Judges all requests; returns the reply, or nil and the server's error.
local function judge_all()
  local reply, n = { now }, 1
  local request = first
  while args[request] do
    local limits = args[request]
    local to = request + (limits < 0 and -limits or limits) * 3
    local policy = policies[args[request + 2]]
    local pass = limits == 1 and not foreign[args[request + 1]] and policy.step.pass
    if not (pass and pass(states, args[request + 1], policy, args[request + 3], reply, n)) then
      local failure = judge(reply, n, request, to)
      if failure then
        return nil, failure
      end
    end
    n = n + (to - request)
    request = to + 1
  end
  return struct.pack('<' .. string.rep('d', n), unpack(reply, 1, n))
end

-- Some values show only while they are used that they are not ours. Nothing was written yet, so what was decided with
-- them is decided again without.
local reply, failure, again
repeat
  states = {}
  reply, failure = judge_all()
  if failure then
    return failure
  end
  again = false
  for key = 1, #KEYS do
    if states[key] and states[key].foreign then
      foreign[key], again = states[key].policy, true
    end
  end
until not again

for key = 1, #KEYS do
  local state = states[key]
  if foreign[key] then
    local ttl, window = redis.call('PTTL', KEYS[key]), millis(foreign[key].window)
    if ttl < 0 or ttl > window then
      redis.call('PEXPIRE', KEYS[key], window)
    end
  elseif state.save then
    state.policy.step.save(state, key, state.policy)
  end
end
return reply
