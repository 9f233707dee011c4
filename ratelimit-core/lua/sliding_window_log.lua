-- sliding_window_log.lua: every admitted unit with its time; exact in every window.
-- State   list: a header of 13 bytes, 'l', units in all entries (5 bytes), time of the newest entry (7 bytes, little-
--         endian microseconds); then the entries, oldest first: time (7 bytes), and units (1 to 5 bytes) unless 1
-- Twin    src/algorithm/sliding_window_log.rs, which explains the formulas; same names, same integer steps.
-- Writes  nothing when denied, unless entries have expired; RPUSH, LSET and PEXPIRE when charged.
-- What settle and charge change is noted down and written by save, so that a peek writes nothing:
--   expired   entries that leave at the front
--   taken     entries that leave at the back, to be replaced by
--   added     the newest entry, a pair of time and units
local sliding_window_log = {}
algorithms[3] = sliding_window_log

local CHUNK = 100 -- entries read at a time

local function encode(time, units)
  if units == 1 then
    return pack('<I7', time)
  end
  local bytes = 1
  while units >= 256 ^ bytes do
    bytes = bytes + 1
  end
  return pack('<I7I' .. bytes, time, units)
end

-- An entry that is not one of ours is taken for an old one of no units, and makes the whole value foreign.
local function decode(self, entry)
  if type(entry) ~= 'string' or #entry < 7 or #entry > 12 then
    self.foreign = true
    return 0, 0
  end
  local time = struct.unpack('<I7', entry)
  if #entry == 7 then
    return time, 1
  end
  local units = struct.unpack('<I' .. (#entry - 7), entry, 8)
  self.foreign = self.foreign or units == 0
  return time, units
end

-- Calls `visit` with time and units of the stored entries from the front, skipping the first `from`, until it returns
-- true; returns whether it did. Times that fall, or pass that of the newest, are not ours.
local function from_front(self, from, visit)
  local stop = self.stored - self.taken
  local i, earlier = from, 0
  while i < stop do
    -- One more than the header, or what load has read already.
    local chunk = i == 0 and { self.oldest } or call('LRANGE', KEYS[self.key], i + 1, math.min(i + CHUNK, stop))
    for _, entry in ipairs(chunk) do
      local time, units = decode(self, entry)
      self.foreign = self.foreign or time < earlier or time > self.found_newest
      earlier = time
      if visit(time, units) then
        return true
      end
    end
    i = i + #chunk
  end
  return false
end

function sliding_window_log.load(key, policy)
  local head = redis.pcall('LRANGE', KEYS[key], 0, 1)
  local self =
    { key = key, used = 0, newest = 0, stored = 0, expired = 0, taken = 0, waits = {}, policy = policy, save = false }
  if head.err then
    return nil, not string.find(head.err, 'WRONGTYPE', 1, true) and head or nil
  elseif #head == 0 then
    return self
  end
  local header = head[1]
  if #head ~= 2 or #header ~= 13 or string.byte(header) ~= 108 or #head[2] < 7 or #head[2] > 12 then
    return nil
  end
  self.used, self.newest = struct.unpack('<I5I7', header, 2)
  self.stored, self.oldest = call('LLEN', KEYS[key]) - 1, head[2]
  return self
end

local function push(self, time, units)
  if not self.added and self.stored - self.taken > self.expired and self.newest == time then
    local _, before = decode(self, call('LINDEX', KEYS[self.key], -1 - self.taken))
    self.taken = self.taken + 1
    self.added = { time, before + units }
  elseif self.added then
    self.added[2] = self.added[2] + units
  else
    self.added = { time, units }
  end
  self.newest = time
  self.used = self.used + units
end

function sliding_window_log.settle(self, policy)
  local went_back = self.stored > 0 and now < self.newest
  if went_back then
    local future = 0
    while self.taken < self.stored do
      local time, units = decode(self, call('LINDEX', KEYS[self.key], -1 - self.taken))
      if time <= now then
        self.newest = time
        break
      end
      future = future + units
      self.taken = self.taken + 1
    end
    self.used = self.used - future
    push(self, now, future)
    -- The newest that the header tells is not there.
    self.foreign = self.foreign or future == 0
  end
  self.found_newest = self.newest
  local is_live = from_front(self, 0, function(time, units)
    if now - time <= policy.window then
      return true
    end
    self.expired = self.expired + 1
    self.used = self.used - units
  end)
  self.found_used = self.used
  -- The header tells more units than the entries, or fewer.
  self.foreign = self.foreign or self.used < 0 or (self.used > 0) ~= (is_live or self.added ~= nil)
  return went_back or self.expired > 0
end

function sliding_window_log.fits(self, policy, cost)
  return self.used + cost <= policy.max
end

function sliding_window_log.charge(self, _, cost)
  if cost > 0 then
    push(self, now, cost)
  end
end

-- Notes how many units have to leave until a cost fits.
function sliding_window_log.denied(self, policy, cost)
  if cost <= policy.max then
    self.waits[#self.waits + 1] = self.used + cost - policy.max
  end
end

-- What matters of the log as it was found: its header and a count (2 bytes); then so many times, one for each number of
-- units that somebody waits for: when the last of them was admitted (7 bytes), and the units until then that were not told
-- before (5 bytes).
function sliding_window_log.tell(self)
  local told, waits, next = {}, self.waits, 1
  table.sort(waits)
  local gone, untold = 0, 0
  if waits[1] then
    from_front(self, self.expired, function(time, units)
      gone, untold = gone + units, untold + units
      if gone < waits[next] then
        return false
      end
      told[#told + 1], untold = pack('<I7I5', time, untold), 0
      while waits[next] and waits[next] <= gone do
        next = next + 1
      end
      return waits[next] == nil
    end)
    self.foreign = self.foreign or gone > self.found_used
  end
  return pack('<c1I5I7I2', 'l', self.found_used, self.found_newest, #told) .. table.concat(told)
end

-- Refunds are rare, so this one writes at once. Entries are searched from the back: what is refunded is recent.
function sliding_window_log.refund(self, _, cost, at)
  if self.added and self.added[1] == at then
    local given_back = math.min(cost, self.added[2])
    self.added[2] = self.added[2] - given_back
    self.used = self.used - given_back
    if self.added[2] == 0 then
      self.added = nil
      if self.stored - self.taken > self.expired then
        self.newest = decode(self, call('LINDEX', KEYS[self.key], -1 - self.taken))
      end
    end
    return
  end
  local i = -1 - self.taken
  while self.stored + i >= self.expired do
    local time, units = decode(self, call('LINDEX', KEYS[self.key], i))
    if time < at then
      return
    elseif time == at then
      local given_back = math.min(cost, units)
      self.used = self.used - given_back
      if given_back < units then
        call('LSET', KEYS[self.key], i, encode(time, units - given_back))
        return
      end
      call('LSET', KEYS[self.key], i, '')
      call('LREM', KEYS[self.key], -1, '')
      self.stored = self.stored - 1
      if i == -1 and not self.added and self.stored > self.expired then
        self.newest = decode(self, call('LINDEX', KEYS[self.key], -1))
      end
      return
    end
    i = i - 1
  end
end

function sliding_window_log.save(self, number, policy)
  local key = KEYS[number]
  if self.used == 0 then
    call('DEL', key)
    return
  end
  if self.taken > 0 then
    call('LTRIM', key, 0, -1 - self.taken)
  end
  local header = pack('<c1I5I7', 'l', self.used, self.newest)
  if self.stored == 0 then
    call('RPUSH', key, header)
  elseif self.expired > 0 then
    -- The last expired entry makes room for the header; all before it go.
    call('LTRIM', key, self.expired, -1)
    call('LSET', key, 0, header)
  else
    call('LSET', key, 0, header)
  end
  if self.added then
    call('RPUSH', key, encode(self.added[1], self.added[2]))
    call('PEXPIRE', key, millis(policy.window + 1))
  end
end

