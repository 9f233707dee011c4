-- requests.lua: the rest of check.lua: judges one by one, in their order, the requests about the keys that are left. Each
-- sees what the requests before it were charged, as if it had come in a call of its own at the same instant. Changes are
-- kept in `values` and written at the end.
-- Block   instead of any state: string, 8 bytes: 'b', until (7 bytes, little-endian, microseconds). Twin of
--         src/algorithm/block.rs
args = args or { decode('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
local requests = { decode('<' .. string.rep('d', #ARGV[2] / 8), ARGV[2]) } -- and the position behind the last number
if not left then -- a call about logs only
  stored, left = {}, {}
  for key = 1, #KEYS do
    left[key] = '0'
  end
end

-- By number of the key: its state with the charges so far, false for none; the TTL to write it with, false to patch it, nil
-- to leave it; the log that was found there; and the window of a policy over a corrupt state.
local values, ttls, logs, corrupt = {}, {}, {}, {}
local again -- whether a state turned out to be corrupt after it was used
local blocks = ARGV[3] and { decode('<' .. string.rep('d', policies), ARGV[3]) } or {}
local LONGEST = 31622400000000 -- of all windows and blocks

-- The end of the block that a value is; nil for any other value.
local function end_of_block(value)
  if type(value) == 'string' and #value == 8 and string.byte(value) == 98 then -- 'b'
    return (decode('<I7', value, 2))
  end
end

-- Reads a state into `values`, or notes that it is corrupt. Returns the server's error, if any. `policy` is its place in args.
local function open(key, policy)
  local value, failure = stored[key], nil
  if not steps[args[policy - 1]] then
    value, failure = log.open(key, args[policy + 1])
    if not value and not failure then
      stored[key] = redis.pcall('GET', KEYS[key])
    end
  elseif not value then
    value = redis.pcall('GET', KEYS[key])
    if value then -- of another type
      value, failure = nil, not string.find(value.err, 'WRONGTYPE', 1, true) and value or nil
    end
  end
  local ends = end_of_block(stored[key])
  if ends and ends > now then
    value = stored[key]
  elseif ends then
    value = not steps[args[policy - 1]] and log.replace(key, args[policy + 1])
  end
  values[key], logs[key] = value, type(value) == 'table' and value or nil
  corrupt[key] = value == nil and args[policy + 1] or nil
  return failure
end

-- Runs the step of a cost on a state, which it does not change. During a block no cost fits.
local function step(key, policy, cost)
  local ends, longest = end_of_block(values[key]), blocks[policy / 4] or 0
  if not ends then
    return steps[args[policy - 1]](values[key], cost, args[policy], args[policy + 1], args[policy + 2])
  end
  longest = longest > 0 and longest or LONGEST
  if ends > now + longest then -- the clock went back
    return false, pack('<c1I7', 'b', now + longest), longest
  end
  return false
end

-- The length of the block that a cost begins which does not fit: 0 if the policy has none, if it has begun already, or if the
-- cost never passes.
local function block_of(key, policy, cost)
  local block, first = blocks[policy / 4] or 0, steps[args[policy - 1]]
  if block == 0 or end_of_block(values[key]) then
    return 0
  elseif first then -- a new caller's step
    return first(false, cost, args[policy], args[policy + 1], args[policy + 2]) and block or 0
  end
  return cost <= args[policy] and block or 0
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
    elseif type(state) == 'table' and log.fits(state, sum, args[policy]) then
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

-- Finds the largest number of units, at most `most`, of which each enforced limit from `first` to `last` admits as many for
-- each limit of its key. 1 if none fits: that is denied.
local function largest_fit(first, last, sums, most)
  local function fits(units)
    for limit = first, last, 3 do
      local key, policy = requests[limit], 4 * requests[limit + 1]
      local value, cost = values[key], most > 0 and sums[key] / most * units or 0
      if policy < 0 then
        -- A shadow limit does not lower the number.
      elseif type(value) == 'table' and not log.fits(value, cost, args[policy]) then
        return false
      elseif type(value) ~= 'table' and not step(key, policy, cost) then
        return false
      end
    end
    return true
  end
  local low, high = 0, most
  if fits(high) then
    return high
  end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if fits(middle) then
      low = middle
    else
      high = middle
    end
  end
  return math.max(low, 1)
end

-- Judges one request, whose limits are at `first` to `last` in `requests`. Returns its verdict with details, or nil and the
-- server's error. A part of a denied group is not charged, but may begin blocks, as a peek may not. A shadow limit that does
-- not fit is spared: it is not charged, and changes no verdict. Of a request for as many units as fit the costs are the most.
local function judge(first, last, is_peek, is_denied, is_up_to)
  local verdict, sums, enforced, spared, changes, begun = '1', {}, {}, {}, {}, {}
  for limit = first, last, 3 do
    local key, policy = requests[limit], 4 * math.abs(requests[limit + 1])
    local failure = values[key] == nil and not corrupt[key] and open(key, policy)
    if failure then
      return nil, failure
    end
    sums[key] = (sums[key] or 0) + requests[limit + 2]
    enforced[key] = enforced[key] or requests[limit + 1] > 0
  end
  for key, decides in pairs(enforced) do
    verdict = decides and corrupt[key] and '-' or verdict
  end
  local most, units = requests[first + 2], requests[first + 2]
  if is_up_to and verdict == '1' then
    units = largest_fit(first, last, sums, most)
    for key, sum in pairs(sums) do
      sums[key] = most > 0 and sum / most * units or 0
    end
  end
  for limit = first, last, 3 do
    local key, policy = requests[limit], 4 * math.abs(requests[limit + 1])
    local decides = requests[limit + 1] > 0
    local value, change = values[key], changes[key]
    local fits = not corrupt[key]
    if type(value) == 'table' then
      changes[key] = { policy }
      fits = verdict == '-' or log.fits(value, sums[key], args[policy])
      if not fits then
        log.note_wait(value, sums[key], args[policy])
      end
    elseif fits then
      -- Beside a corrupt state it still has to be known whether this one is corrupt, since the reply holds it.
      local bytes, ttl
      fits, bytes, ttl = step(key, policy, verdict == '-' and 0 or sums[key])
      if fits == nil then
        corrupt[key], verdict, again = args[policy + 1], '-', true
      end
      -- Of several blocks of one key the shortest cuts one from the future.
      if not (change and change[2] and (not bytes or ttl and change[3] and change[3] < ttl)) then
        changes[key] = { policy, bytes, ttl }
      end
    end
    if fits == false and (decides or not enforced[key]) then
      if decides and verdict == '1' then
        verdict = '0'
      end
      spared[key] = true
      if not is_peek and not corrupt[key] then
        local block = block_of(key, policy, sums[key])
        begun[key] = block > 0 and block or begun[key]
      end
    end
  end
  -- The shortest block of one key begins: a longer one would not last beyond the next request.
  for limit = first, next(begun) and last or 0, 3 do
    local key, block = requests[limit], blocks[math.abs(requests[limit + 1])] or 0
    begun[key] = begun[key] and block > 0 and math.min(begun[key], block) or begun[key]
  end
  local charges = verdict == '1' and not is_peek and not is_denied
  for key, change in pairs(verdict ~= '-' and changes or {}) do
    local policy, bytes, ttl = unpack(change, 1, 3)
    local value, is_charged = values[key], charges and not spared[key]
    if begun[key] then
      values[key], ttls[key] = pack('<c1I7', 'b', now + begun[key]), begun[key]
    elseif type(value) == 'table' then
      if is_charged then
        log.charge(value, sums[key])
      end
      ttls[key] = not is_peek and (is_charged or value.dirty) and 0 or ttls[key]
    elseif not is_peek then
      if not is_charged then -- A denied request changes only what every cost changes: the clock went back.
        _, bytes, ttl = step(key, policy, math.huge)
      end
      if bytes then
        values[key] = ttl and bytes or string.sub(value, 1, 8) .. bytes .. string.sub(value, 14)
        ttls[key] = ttl or ttls[key] or false
        begun[key] = end_of_block(values[key]) and ttl -- a block from the future was cut
      end
    end
  end
  -- For each limit: two limits over one log may have different maxima.
  for limit = first, last, 3 do
    local value = values[requests[limit]]
    if type(value) == 'table' then
      log.note_next_unit(value, args[4 * math.abs(requests[limit + 1])])
    end
  end
  if verdict == '-' or not (next(begun) or charges and (next(spared) or units < most)) then
    return verdict
  end
  local details = { '+', verdict }
  for limit = first, last, 3 do
    local key = requests[limit]
    local charged = charges and not spared[key] and sums[key] or 0
    details[#details + 1] = begun[key] and values[key] or pack('<c1I7', 'c', charged)
  end
  return table.concat(details)
end

-- Charges one key beyond its limit. It is brought to `now` under its own policy, and charged under that of the largest limit.
local function overdraw(first)
  local key, policy = requests[first], 4 * requests[first + 1]
  local failure = values[key] == nil and not corrupt[key] and open(key, policy)
  if failure then
    return nil, failure
  end
  if type(values[key]) == 'string' then
    local _, bytes, ttl = step(key, policy, math.huge)
    if ttl then
      values[key], ttls[key] = bytes, ttl
    end
  end
  local verdict, err = judge(first + 3, first + 3, false, false, true)
  local value, is_charged = values[key], verdict and string.find(verdict, '^%+?1')
  if is_charged and type(value) == 'string' and string.byte(value) == 116 then -- 't', a token bucket that may be in debt now
    values[key] = 'd' .. string.sub(value, 2) .. pack('<I7', now)
  end
  return verdict, err
end

-- A state may turn out to be corrupt when it is used. Nothing has been written by then, so all requests are judged again.
local verdicts
repeat
  verdicts, again = {}, false
  local request = 1
  while request < #requests do
    local header = requests[request]
    local first, last, operation = request + 1, request + 3 * (math.abs(header) % 256), math.floor(header / 256)
    local verdict, failure = '1', nil
    if left[requests[first]] and operation == 3 then
      verdict, failure = overdraw(first)
    elseif left[requests[first]] then
      verdict, failure = judge(first, last, header < 0, operation == 1, operation == 2)
    end
    if failure then
      return failure
    end
    verdicts[#verdicts + 1] = verdict
    request = last + 1
  end
  for key in pairs(left) do
    local state = logs[key]
    if state then
      stored[key] = log.summarize(state)
      if state.corrupt then
        corrupt[key], again = state.window, true
      end
    end
  end
  if again then
    values, ttls, logs = {}, {}, {}
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
    if logs[key] then -- a tree, which is freed in another thread
      call('UNLINK', KEYS[key])
    end
    call('SET', KEYS[key], value, 'PX', millis(ttl))
  end
  stored[key] = stored[key] or '.'
end
return pack('<d', now) .. table.concat(stored) .. table.concat(verdicts)
