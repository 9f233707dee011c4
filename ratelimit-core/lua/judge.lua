-- judge.lua: judges one request, which is a group of limits. Twin of src/algorithm/group.rs, shadow.rs and block.rs
-- `requests` has three places for each limit: its key; its policy, which is negative for a shadow limit; its cost. The policy's
-- maximum is at 4 * policy in `args`, its algorithm before it, and its window behind it. The other globals are those of open.lua.

-- Finds the largest number of units, at most `most`, that fits every enforced limit from `first` to `last`. A key with two limits
-- is charged twice the number. If not even 1 fits, returns 1, which the steps then deny.
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

-- Charges a log, if it is charged, and marks it to be written.
local function change_log(key, is_charged, cost)
  if is_charged then
    log.charge(values[key], cost)
  end
  if is_charged or values[key].dirty then
    ttls[key] = 0
  end
end

-- Replaces a string by the bytes of its step. If the step has cut a block that was too long, the new string is a block: returns
-- its length. A state that is not charged changes only if the clock went back, or if its step writes on denial.
local function change_string(key, is_charged, change)
  local value, policy, bytes, ttl = values[key], change[1], change[2], change[3]
  if not is_charged then -- no cost of infinity fits: what the step writes on denial
    _, bytes, ttl = step(key, policy, math.huge)
  end
  if bytes and ttl then
    values[key], ttls[key] = bytes, ttl
    return end_of_block(bytes) and ttl
  elseif bytes then -- five bytes, from the ninth on
    values[key], ttls[key] = string.sub(value, 1, 8) .. bytes .. string.sub(value, 14), ttls[key] or false
  end
end

-- Judges one request, whose limits are at `first` to `last` in `requests`. Returns its verdict with details, or nil and the
-- server's error. A request that is a part of a denied group (`is_denied`) is not charged, but may begin blocks; a peek may not.
-- A shadow limit that would deny is not charged, and changes no verdict. A request for as many units as fit (`is_up_to`) has the
-- most as its costs.
local function judge(first, last, is_peek, is_denied, is_up_to)
  local verdict, sums = '1', {}
  for limit = first, last, 3 do
    local key, policy = requests[limit], 4 * math.abs(requests[limit + 1])
    local failure = values[key] == nil and not corrupt[key] and open(key, policy)
    if failure then
      return nil, failure
    end
    sums[key] = (sums[key] or 0) + requests[limit + 2]
    verdict = requests[limit + 1] > 0 and corrupt[key] and '-' or verdict
  end
  local most, units = requests[first + 2], requests[first + 2]
  if is_up_to and verdict == '1' then
    units = largest_fit(first, last, sums, most)
    for key, sum in pairs(sums) do
      sums[key] = most > 0 and sum / most * units or 0
    end
  end

  -- Runs the step of each limit. By number of the key:
  local denies = {} -- whether a limit of the key does not fit, or the step finds its state corrupt
  local changes = {} -- policy, bytes and TTL of the step that may change the state
  local begun = {} -- length of the block that replaces the state
  for limit = first, last, 3 do
    local key, policy = requests[limit], 4 * math.abs(requests[limit + 1])
    local value, change, is_enforced, fits = values[key], changes[key], requests[limit + 1] > 0, false
    if type(value) == 'table' then
      changes[key] = { policy }
      fits = verdict == '-' or log.fits(value, sums[key], args[policy])
      if not fits then
        log.note_wait(value, sums[key], args[policy])
      end
    elseif not corrupt[key] then
      -- After a corrupt state nothing is charged. A cost of 0 only shows whether this state is corrupt, too.
      local bytes, ttl
      fits, bytes, ttl = step(key, policy, verdict == '-' and 0 or sums[key])
      if fits == nil then
        corrupt[key], verdict, again = args[policy + 1], '-', true
      end
      -- Of several policies of the key that cut its block, the one with the shortest block is kept.
      if not (change and change[2] and (not bytes or ttl and change[3] and change[3] < ttl)) then
        changes[key] = { policy, bytes, ttl }
      end
    end
    if fits == false then
      if is_enforced and verdict == '1' then
        verdict = '0'
      end
      denies[key] = true
      if not is_peek and not corrupt[key] then
        local block = block_of(key, policy, sums[key])
        begun[key] = block > 0 and block or begun[key]
      end
    end
  end
  -- Where a denial begins a block, the shortest of all policies of the key begins: the next request would cut a longer one.
  for limit = first, next(begun) and last or 0, 3 do
    local key, block = requests[limit], blocks[math.abs(requests[limit + 1])] or 0
    begun[key] = begun[key] and block > 0 and math.min(begun[key], block) or begun[key]
  end

  -- Changes each state in one way: a block replaces it, or it is charged as a log or as a string.
  local charges = verdict == '1' and not is_peek and not is_denied
  for key, change in pairs((is_peek or verdict == '-') and {} or changes) do
    local is_charged = charges and not denies[key]
    if begun[key] then
      values[key], ttls[key] = pack('<c1I7', 'b', now + begun[key]), begun[key]
    elseif type(values[key]) == 'table' then
      change_log(key, is_charged, sums[key])
    else
      begun[key] = change_string(key, is_charged, change)
    end
  end

  -- Records the wait for one more unit, for each limit: two limits over one log may have different maxima.
  for limit = first, last, 3 do
    local value = values[requests[limit]]
    if type(value) == 'table' then
      log.note_next_unit(value, args[4 * math.abs(requests[limit + 1])])
    end
  end
  if verdict == '-' or not (next(begun) or charges and (next(denies) or units < most)) then
    return verdict -- the whole costs were charged, or nothing; details are for blocks and parts
  end
  local details = { '+', verdict }
  for limit = first, last, 3 do
    local key = requests[limit]
    local charged = charges and not denies[key] and sums[key] or 0
    details[#details + 1] = begun[key] and values[key] or pack('<c1I7', 'c', charged)
  end
  return table.concat(details)
end
