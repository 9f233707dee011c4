-- sliding_window_counter.lua: counts per sub-window, the oldest weighted by its overlap with the window.
-- State   string: 'c', start (7 bytes, little-endian microseconds), current, oldest (5 bytes each); and with more than
--         one sub-window their sum without current and oldest, then these counts themselves, newest first (5 bytes each)
-- Twin    src/algorithm/sliding_window_counter.rs, which explains the formulas; same names, same integer steps. Its
--         `earlier` is here `between` (with the sum `whole_between`) and `oldest`.
-- Writes  one SET where a sub-window starts, one SETRANGE inside it. `between` is read only where a sub-window starts
--         and to tell a denied caller how long to wait, so a decision does not grow with the number of sub-windows.
local sliding_window_counter = {}
algorithms[2] = sliding_window_counter

function sliding_window_counter.load(key, policy, stored)
  local failure
  stored, failure = read_string(key, stored)
  if stored == '' then
    return { start = 0, current = 0, oldest = 0, whole_between = 0, between = {}, rewrite = true, fresh = true }
  end
  local size = policy.sub_windows == 1 and 18 or 18 + 5 * policy.sub_windows
  if not stored or #stored ~= size or string.byte(stored) ~= 99 then
    return nil, failure
  end
  local start, current, oldest = struct.unpack('<I7I5I5', stored, 2)
  local whole_between = 0
  if policy.sub_windows > 1 then
    whole_between = struct.unpack('<I5', stored, 19)
  end
  return { start = start, current = current, oldest = oldest, whole_between = whole_between, stored = stored }
end

-- The counts between current and oldest, newest first.
local function between(self, policy)
  if not self.between then
    local n = policy.sub_windows - 1
    self.between = n == 0 and {} or { struct.unpack('<' .. string.rep('I5', n), self.stored, 24) }
    self.between[n + 1] = nil -- the position behind the last, which unpack adds
    local sum = 0
    for i = 1, n do
      sum = sum + self.between[i]
    end
    self.foreign = sum ~= self.whole_between
  end
  return self.between
end

-- Moves every count `by` sub-windows into the past.
local function roll(self, policy, by)
  local earlier = between(self, policy)
  local kept = policy.sub_windows
  earlier[kept] = self.oldest
  local rolled, whole_between = {}, 0
  for i = 1, kept do
    local count = 0
    if i == by then
      count = self.current
    elseif i > by then
      count = earlier[i - by] or 0
    end
    rolled[i] = count
    whole_between = whole_between + count
  end
  self.oldest = rolled[kept]
  self.whole_between = whole_between - self.oldest
  rolled[kept] = nil
  self.between = rolled
  self.current = 0
  self.rewrite = true
end

local function used(self, length, now)
  local overlap = length - (now - self.start)
  return self.current + self.whole_between + (mul_div(self.oldest, overlap, length))
end

-- The largest overlap at which `oldest` still weighs less than `allowance + 1`.
local function overlap_at(allowance, length, oldest)
  local quotient, remainder = mul_div(allowance + 1, length, oldest)
  if remainder > 0 then
    return quotient
  end
  return quotient - 1
end

function sliding_window_counter.settle(self, policy, now)
  local length = policy.window / policy.sub_windows
  local went_back = now < self.start
  if went_back then
    self.start = now
    self.rewrite = true
  else
    local into = now - self.start
    local rolled = (into - into % length) / length
    if rolled > 0 then
      self.start = self.start + rolled * length
      roll(self, policy, rolled)
    end
  end
  self.used = used(self, length, now)
  if self.used == 0 then
    self.start, self.current, self.oldest, self.whole_between = now - now % length, 0, 0, 0
    self.between = {}
    self.rewrite = true
    return false
  end
  return went_back
end

function sliding_window_counter.fits(self, policy, _, cost)
  return self.used + cost <= policy.max
end

function sliding_window_counter.charge(self, _, _, cost)
  self.current = self.current + cost
  self.used = self.used + cost
end

function sliding_window_counter.remaining(self, policy)
  return math.max(policy.max - self.used, 0)
end

function sliding_window_counter.reset_after(self, policy, now)
  local length = policy.window / policy.sub_windows
  local j, newest = policy.sub_windows, self.current
  if newest == 0 then
    local counts = between(self, policy)
    while j > 1 and newest == 0 do
      newest = counts[policy.sub_windows - j + 1] or 0
      j = j - 1
    end
    if newest == 0 then
      j, newest = 0, self.oldest
    end
  end
  if newest == 0 then
    return 0
  end
  return math.max(self.start + (j + 1) * length - overlap_at(0, length, newest) - now, 0)
end

function sliding_window_counter.retry_after(self, policy, now, cost)
  local length = policy.window / policy.sub_windows
  local allowance = policy.max - cost
  if allowance < 0 then
    return nil
  end
  local j, whole, oldest = 0, self.current + self.whole_between, self.oldest
  while whole > allowance and j < policy.sub_windows do
    j = j + 1
    oldest = j < policy.sub_windows and (between(self, policy)[policy.sub_windows - j] or 0) or self.current
    whole = whole - oldest
  end
  return self.start + (j + 1) * length - overlap_at(allowance - whole, length, oldest) - now
end

function sliding_window_counter.refund(self, policy, _, at, _, cost)
  local length = policy.window / policy.sub_windows
  if at >= self.start then
    if at - self.start < length then
      self.current = math.max(self.current - cost, 0)
    end
    return
  end
  local back = math.ceil((self.start - at) / length)
  self.rewrite = true
  if back == policy.sub_windows then
    self.oldest = math.max(self.oldest - cost, 0)
  elseif back < policy.sub_windows then
    local counts = between(self, policy)
    local given_back = math.min(cost, counts[back] or 0)
    counts[back] = (counts[back] or 0) - given_back
    self.whole_between = self.whole_between - given_back
  end
end

function sliding_window_counter.save(self, key, policy, now, at_least)
  if not self.rewrite then
    redis.call('SETRANGE', key, '8', struct.pack('<I5', self.current))
    return
  end
  local stored = struct.pack('<c1I7I5I5', 'c', self.start, self.current, self.oldest)
  local n = policy.sub_windows - 1
  if n > 0 then
    local counts = between(self, policy)
    for i = 1, n do
      counts[i] = counts[i] or 0
    end
    stored = stored .. struct.pack('<I5' .. string.rep('I5', n), self.whole_between, unpack(counts, 1, n))
  end
  local length = policy.window / policy.sub_windows
  redis.call('SET', key, stored, 'PX', millis(self.start + length + policy.window - now, at_least))
end

