-- check.lua: judge requests, each a group of limits, in order and at one instant; charge a request if its whole group passes.
-- KEYS, ARGV and Reply are described in quick/check.lua, which runs first.
-- Twin    src/algorithm/decide.rs; same names, same order. Each request sees the charges of the requests before it in the
--         call, as if it came in its own call at the same instant. The client derives `remaining`, `reset_after` and
--         `retry_after` from the states in the reply, with the Rust twins.
for i = 1, #policies do
  policies[i].step = algorithms[policies[i].algorithm]
end

-- By number of the key. `states`: the state advanced to `now`, or false if the stored value is corrupt. `corrupt`: the
-- policy of a corrupt key. In a state, `dirty` means that advancing or charging changed it, `unsaved` that it must be
-- written.
local states, corrupt = {}, {}

-- Loads the state of a key and advances it to `now`; returns the server's error, if any.
local function load_state(key, policy)
  local state, failure = false, nil
  if not corrupt[key] then
    state, failure = policy.step.load(key, policy)
    if state then
      state.dirty = policy.step.advance(state, policy)
    else
      state, corrupt[key] = false, policy
    end
  end
  states[key] = state
  return failure
end

-- Charges and writes the total of all requests for a key if it fits; otherwise writes nothing. Returns whether it fits, and
-- the server's error, if any.
local function charge_total(key, policy, total)
  local failure = load_state(key, policy)
  local state, step = states[key], policy.step
  if failure or not state or not step.fits(state, policy, total) then
    return false, failure
  end
  step.charge(state, policy, total)
  if step.on_judged then
    step.on_judged(state, policy)
  end
  stored[key] = step.summarize and step.summarize(state) or stored[key]
  if state.corrupt then
    return false
  end
  step.save(state, key, policy)
  return true
end

-- Returns whether a request passes, or nil if one of its states is corrupt. Charges a request that passes, unless it peeks.
local function judge(requests, request, last_field, peek)
  local allowed = true
  for member = request + 1, last_field, 3 do
    local state, cost = states[requests[member]], requests[member + 2]
    if not state then
      return nil
    elseif state.request == request then
      state.total = state.total + cost
    else
      state.request, state.total = request, cost
    end
  end
  for member = request + 1, last_field, 3 do
    local state, policy = states[requests[member]], policies[requests[member + 1]]
    if not policy.step.fits(state, policy, state.total) then
      allowed = false
      if policy.step.on_denied then
        policy.step.on_denied(state, policy, state.total)
      end
    end
  end
  if not peek then
    for member = request + 1, last_field, 3 do
      local state, policy = states[requests[member]], policies[requests[member + 1]]
      if allowed and state.request == request then
        policy.step.charge(state, policy, state.total)
        state.request, state.dirty = nil, true
      end
      state.unsaved = state.unsaved or state.dirty
    end
  end
  for member = request + 1, last_field, 3 do
    local state, policy = states[requests[member]], policies[requests[member + 1]]
    if policy.step.on_judged then
      policy.step.on_judged(state, policy)
    end
  end
  return allowed
end

-- Judges the requests with pending keys. Returns the verdicts of all requests, or nil and the server's error.
local function judge_all(requests)
  local verdicts, request = {}, 1
  while requests[request] do
    local limit_count = requests[request]
    local last_field = request + math.abs(limit_count) * 3
    local verdict = true
    if pending[requests[request + 1]] then
      for member = request + 1, last_field, 3 do
        local key = requests[member]
        local failure = states[key] == nil and load_state(key, policies[requests[member + 1]])
        if failure then
          return nil, failure
        end
      end
      verdict = judge(requests, request, last_field, limit_count < 0)
    end
    verdicts[#verdicts + 1] = verdict and '1' or verdict == nil and '-' or '0'
    request = last_field + 1
  end
  return table.concat(verdicts)
end

for key, total in pairs(pending) do
  if total >= 0 then
    local charged, failure = charge_total(key, pending_policy[key], total)
    if failure then
      return failure
    elseif charged then
      pending[key] = nil
    end
  end
end
if not next(pending) then
  return reply('')
end

-- Corruption can surface while judging. Nothing has been written yet, so judge again with that key marked corrupt.
local requests = doubles(ARGV[2])
local verdicts, failure, retry
repeat
  verdicts, failure = judge_all(requests)
  if failure then
    return failure
  end
  retry = false
  for key in pairs(pending) do
    local state = states[key]
    if state and state.policy.step.summarize then
      stored[key] = state.policy.step.summarize(state)
    end
    if state and state.corrupt then
      corrupt[key], retry = state.policy, true
    end
  end
  states = retry and {} or states
until not retry

for key = 1, #KEYS do
  local state = pending[key] and states[key]
  if corrupt[key] then
    local ttl, window = call('PTTL', KEYS[key]), millis(corrupt[key].window)
    if ttl < 0 or ttl > window then
      call('PEXPIRE', KEYS[key], window)
    end
    stored[key] = '!'
  elseif state and state.unsaved then
    state.policy.step.save(state, key, state.policy)
  end
end
return reply(verdicts)
