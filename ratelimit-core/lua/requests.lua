-- requests.lua: the rest of check.lua: judges one by one, in their order, the requests about the keys that are left. Each
-- sees what the requests before it were charged, as if it had come in a call of its own at the same instant. Changes are
-- kept in `values` and written at the end.
args = args or { decode('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
local requests = { decode('<' .. string.rep('d', #ARGV[2] / 8), ARGV[2]) } -- and the position behind the last number
if not left then -- a call about logs only
  stored, left = {}, {}
  for key = 1, #KEYS do
    left[key] = '0'
  end
end

-- By number of the key: its state with the charges so far, false for none; the TTL to write it with, false to patch it, nil
-- to leave it; and the window of a policy over a corrupt state.
local values, ttls, corrupt = {}, {}, {}
local again -- whether a state turned out to be corrupt after it was used

-- Reads a state into `values`, or notes that it is corrupt. Returns the server's error, if any. `policy` is its place in args.
local function open(key, policy)
  local value, failure = stored[key], nil
  if not steps[args[policy - 1]] then
    value, failure = log.open(key, args[policy + 1])
  elseif not value then
    value = redis.pcall('GET', KEYS[key])
    if value then -- of another type
      value, failure = nil, not string.find(value.err, 'WRONGTYPE', 1, true) and value or nil
    end
  end
  values[key] = value
  corrupt[key] = value == nil and args[policy + 1] or nil
  return failure
end

-- Runs the step of a cost on a state, which it does not change.
local function step(key, policy, cost)
  return steps[args[policy - 1]](values[key], cost, args[policy], args[policy + 1], args[policy + 2])
end

-- A log whose sum fits is charged once, as the other states were in check.lua.
for key in pairs(log and left or {}) do
  local place = 1 + 4 * policies + 2 * key
  local policy, sum = 4 * args[place], args[place + 1]
  if not steps[args[policy - 1]] and sum >= 0 then
    local failure = open(key, policy)
    local state = values[key]
    if failure then
      return failure
    elseif state and log.fits(state, sum, args[policy]) then
      log.charge(state, sum)
      log.note_next_unit(state, args[policy])
      stored[key] = log.summarize(state)
      if not state.corrupt then
        log.save(state)
        left[key] = nil
      end
    end
  end
end
if not next(left) then
  return pack('<d', now) .. table.concat(stored)
end

-- Judges one request, whose limits are at `first` to `last` in `requests`. Returns its verdict, or nil and the server's error.
local function judge(first, last, is_peek)
  local verdict, sums, changes = '1', {}, {}
  for limit = first, last, 3 do
    local key, policy = requests[limit], 4 * requests[limit + 1]
    local failure = values[key] == nil and not corrupt[key] and open(key, policy)
    if failure then
      return nil, failure
    end
    verdict = corrupt[key] and '-' or verdict
    sums[key] = (sums[key] or 0) + requests[limit + 2]
  end
  for limit = first, last, 3 do
    local key, policy = requests[limit], 4 * requests[limit + 1]
    local value = values[key]
    local fits = true
    if type(value) == 'table' then
      changes[key] = { policy }
      fits = verdict == '-' or log.fits(value, sums[key], args[policy])
      if not fits then
        log.note_wait(value, sums[key], args[policy])
      end
    elseif not corrupt[key] then
      -- Beside a corrupt state it still has to be known whether this one is corrupt, since the reply holds it.
      local bytes, ttl
      fits, bytes, ttl = step(key, policy, verdict == '-' and 0 or sums[key])
      if fits == nil then
        corrupt[key], verdict, again = args[policy + 1], '-', true
      end
      changes[key] = { policy, bytes, ttl }
    end
    if fits == false and verdict == '1' then
      verdict = '0'
    end
  end
  for key, change in pairs(verdict ~= '-' and changes or {}) do
    local policy, bytes, ttl = unpack(change, 1, 3)
    local value = values[key]
    if type(value) == 'table' then
      if verdict == '1' and not is_peek then
        log.charge(value, sums[key])
      end
      ttls[key] = not is_peek and (verdict == '1' or value.dirty) and 0 or ttls[key]
    elseif not is_peek then
      if verdict == '0' then -- A denied request changes only what every cost changes: the clock went back.
        _, bytes, ttl = step(key, policy, math.huge)
      end
      if bytes then
        values[key] = ttl and bytes or string.sub(value, 1, 8) .. bytes .. string.sub(value, 14)
        ttls[key] = ttl or ttls[key] or false
      end
    end
  end
  -- For each limit: two limits over one log may have different maxima.
  for limit = first, last, 3 do
    local value = values[requests[limit]]
    if type(value) == 'table' then
      log.note_next_unit(value, args[4 * requests[limit + 1]])
    end
  end
  return verdict
end

-- A state may turn out to be corrupt when it is used. Nothing has been written by then, so all requests are judged again.
local verdicts
repeat
  verdicts, again = {}, false
  local request = 1
  while request < #requests do
    local first, last = request + 1, request + 3 * math.abs(requests[request])
    local verdict, failure = '1', nil
    if left[requests[first]] then
      verdict, failure = judge(first, last, requests[request] < 0)
    end
    if failure then
      return failure
    end
    verdicts[#verdicts + 1] = verdict
    request = last + 1
  end
  for key in pairs(left) do
    local state = values[key]
    if type(state) == 'table' then
      stored[key] = log.summarize(state)
      if state.corrupt then
        corrupt[key], again = state.window, true
      end
    end
  end
  if again then
    values, ttls = {}, {}
  end
until not again

for key = 1, #KEYS do
  local value, ttl = values[key], ttls[key]
  if corrupt[key] then
    local lives, most = call('PTTL', KEYS[key]), millis(corrupt[key])
    if lives < 0 or lives > most then
      call('PEXPIRE', KEYS[key], most)
    end
    stored[key] = '!'
  elseif ttl == false then
    call('SETRANGE', KEYS[key], '8', string.sub(value, 9, 13))
  elseif type(value) == 'table' and ttl then
    log.save(value)
  elseif ttl then
    call('SET', KEYS[key], value, 'PX', millis(ttl))
  end
  stored[key] = stored[key] or '.'
end
return pack('<d', now) .. table.concat(stored) .. table.concat(verdicts)
