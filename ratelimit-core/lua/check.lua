-- check.lua: judge requests, each a group of limits, in order and at one instant; charge each that passes whole.
-- KEYS, ARGV and Reply are those of quick/check.lua, which comes before.
-- Twin    src/algorithm.rs, decide; same names, same order. A request after another in one call sees what the one
--         before it was charged, as if it had come in a call of its own at the same instant. What a client is told beyond
--         the verdict, src/store/redis/wire.rs works out from what was found, with the Rust twins.
for i = 1, #policies do
  policies[i].step = algorithms[policies[i].algorithm]
end

-- By number of the key: its state, settled, or false when the value there is not ours; and a policy that such a key is
-- under. A state's `keep` says whether settling or charging has to be kept, and `save` whether it has to be written.
local states, foreign = {}, {}

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

-- Charges a key with the units of all requests about it, and writes that, if all pass; otherwise nothing is written. Returns
-- whether they do, or the server's error.
local function take(key, policy, total)
  local failure = open(key, policy)
  local state, step = states[key], policy.step
  if failure or not state or not step.fits(state, policy, total) then
    return false, failure
  end
  step.charge(state, policy, total)
  if step.charged then
    step.charged(state, policy)
  end
  stored[key] = step.tell and step.tell(state) or stored[key]
  if state.foreign then
    return false
  end
  step.save(state, key, policy)
  return true
end

-- Whether a request passes; nil when one of its values is not ours. Charges it when it does.
local function judge(requests, request, to, peek)
  local allowed = true
  for member = request + 1, to, 3 do
    local state, cost = states[requests[member]], requests[member + 2]
    if not state then
      return nil
    elseif state.request == request then
      state.total = state.total + cost
    else
      state.request, state.total = request, cost
    end
  end
  for member = request + 1, to, 3 do
    local state, policy = states[requests[member]], policies[requests[member + 1]]
    if not policy.step.fits(state, policy, state.total) then
      allowed = false
      if policy.step.denied then
        policy.step.denied(state, policy, state.total)
      end
    end
  end
  if not peek then
    for member = request + 1, to, 3 do
      local state, policy = states[requests[member]], policies[requests[member + 1]]
      if allowed and state.request == request then
        policy.step.charge(state, policy, state.total)
        state.request, state.keep = nil, true
      end
      state.save = state.save or state.keep
    end
  end
  for member = request + 1, to, 3 do
    local state, policy = states[requests[member]], policies[requests[member + 1]]
    if policy.step.charged then
      policy.step.charged(state, policy)
    end
  end
  return allowed
end

-- Judges the requests about the keys that are left; returns their verdicts, or nil and the server's error.
local function judge_all(requests)
  local verdicts, request = {}, 1
  while requests[request] do
    local limits = requests[request]
    local to = request + math.abs(limits) * 3
    local verdict = true
    if left[requests[request + 1]] then
      for member = request + 1, to, 3 do
        local key = requests[member]
        local failure = states[key] == nil and open(key, policies[requests[member + 1]])
        if failure then
          return nil, failure
        end
      end
      verdict = judge(requests, request, to, limits < 0)
    end
    verdicts[#verdicts + 1] = verdict and '1' or verdict == nil and '-' or '0'
    request = to + 1
  end
  return table.concat(verdicts)
end

for key, total in pairs(left) do
  if total >= 0 then
    local taken, failure = take(key, left_under[key], total)
    if failure then
      return failure
    elseif taken then
      left[key] = nil
    end
  end
end
if not next(left) then
  return reply('')
end

-- Some values show only while they are used that they are not ours. Of these nothing was written yet, so what was decided
-- with them is decided again without.
local requests = doubles(ARGV[2])
local verdicts, failure, again
repeat
  verdicts, failure = judge_all(requests)
  if failure then
    return failure
  end
  again = false
  for key in pairs(left) do
    local state = states[key]
    if state and state.policy.step.tell then
      stored[key] = state.policy.step.tell(state)
    end
    if state and state.foreign then
      foreign[key], again = state.policy, true
    end
  end
  states = again and {} or states
until not again

for key = 1, #KEYS do
  local state = left[key] and states[key]
  if foreign[key] then
    local ttl, window = call('PTTL', KEYS[key]), millis(foreign[key].window)
    if ttl < 0 or ttl > window then
      call('PEXPIRE', KEYS[key], window)
    end
    stored[key] = '!'
  elseif state and state.save then
    state.policy.step.save(state, key, state.policy)
  end
end
return reply(verdicts)
