-- sliding_window_counter.lua: counts per sub-window, the oldest weighted by its overlap with the window.
-- State   string: 'c', start (7 bytes, little-endian microseconds), current, oldest (5 bytes each). With several sub-windows
--         also the sum of the counts between current and oldest, then those counts, newest first (5 bytes each)
-- Twin    src/algorithm/sliding_window_counter.rs, which explains the formulas; same names, same integer steps. Its
--         `earlier` is split here into `between` (with the sum `whole_between`) and `oldest`.
-- Writes  one SET when a sub-window starts, one SETRANGE inside it. `between` is read only when a sub-window starts, so the
--         cost of a decision does not grow with the number of sub-windows.
local sliding_window_counter = {}
algorithms[2] = sliding_window_counter

function sliding_window_counter.load(key, policy)
  local value, failure = read_string(key)
  local tag, start, current, oldest, whole_between = 99, 0, 0, 0, 0
  if value ~= '' then
    local n = policy.sub_windows
    if not value or #value ~= (n == 1 and 18 or 18 + 5 * n) then
      return nil, failure
    elseif n == 1 then
      tag, start, current, oldest = struct.unpack('<BI7I5I5', value)
    else
      tag, start, current, oldest, whole_between = struct.unpack('<BI7I5I5I5', value)
    end
    if tag ~= 99 then
      return nil
    end
  end
  return {
    start = start,
    current = current,
    oldest = oldest,
    whole_between = whole_between,
    stored = value,
    used = 0, -- the estimate at `now`
    policy = policy,
    unsaved = false,
  }
end

-- Decodes the counts between current and oldest, newest first.
local function between(self, policy)
  local counts = self.between
  if not counts then
    local n = self.stored == '' and 0 or policy.sub_windows - 1
    counts = n == 0 and {} or { struct.unpack('<' .. string.rep('I5', n), self.stored, 24) }
    counts[n + 1] = nil -- unpack appends the position after the last number
    local sum = 0
    for i = 1, n do
      sum = sum + counts[i]
    end
    if sum ~= self.whole_between then
      self.corrupt = true
    end
    self.between = counts
  end
  return counts
end

-- Moves every count `by` sub-windows into the past.
local function roll(self, policy, by)
  local earlier = between(self, policy)
  local kept = policy.sub_windows
  earlier[kept] = self.oldest
  local rolled, whole = {}, 0
  for i = 1, kept do
    local count = 0
    if i == by then
      count = self.current
    elseif i > by then
      count = earlier[i - by] or 0
    end
    rolled[i] = count
    whole = whole + count
  end
  self.oldest = rolled[kept]
  self.whole_between = whole - self.oldest
  rolled[kept] = nil
  self.between = rolled
  self.current = 0
  self.rewrite = true
end

function sliding_window_counter.advance(self, policy)
  local length = policy.window / policy.sub_windows
  local into = now - self.start
  local went_back = into < 0
  if went_back then
    self.start, self.rewrite = now, true
    into = 0
  elseif into >= length then
    local rest = into % length
    local rolled = (into - rest) / length
    self.start = self.start + rolled * length
    roll(self, policy, rolled)
    into = rest
  end
  local whole = self.current + self.whole_between
  if self.oldest > 0 then
    whole = whole + (mul_div(self.oldest, length - into, length))
  end
  self.used = whole
  if whole == 0 then
    self.start, self.current, self.oldest, self.whole_between = now - now % length, 0, 0, 0
    self.between, self.rewrite = {}, true
    return false
  end
  return went_back
end

function sliding_window_counter.fits(self, policy, cost)
  return self.used + cost <= policy.max
end

function sliding_window_counter.charge(self, _, cost)
  self.current = self.current + cost
  self.used = self.used + cost
end

-- The wait of a denied request depends on every count, so check their sum here.
function sliding_window_counter.on_denied(self, policy)
  between(self, policy)
end

function sliding_window_counter.refund(self, policy, cost, at)
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

function sliding_window_counter.save(self, key, policy)
  if self.stored ~= '' and not self.rewrite then
    call('SETRANGE', KEYS[key], '8', pack('<I5', self.current))
    return
  end
  local value = pack('<c1I7I5I5', 'c', self.start, self.current, self.oldest)
  local n = policy.sub_windows - 1
  if n > 0 then
    local counts = between(self, policy)
    for i = 1, n do
      counts[i] = counts[i] or 0
    end
    value = value .. pack('<I5' .. string.rep('I5', n), self.whole_between, unpack(counts, 1, n))
  end
  local length = policy.window / policy.sub_windows
  call('SET', KEYS[key], value, 'PX', millis(self.start + length + policy.window - now))
end

