-- sliding_window_log.lua: every admitted unit with its time; exact in every window.
-- State   hash: a tree of nodes that grows only at its end, so that a call reads and writes at most a few nodes per level.
--         Numbers are little-endian, times are in microseconds; bytes are in brackets.
--           'h'                     'l', used [5], newest [7], first [5], skip [1], last [5], kept [5]; node `last` of level 0
--           level:number, level 0   entries, at most ENTRIES, oldest first: base [7], width [1]; then for each its time
--                                   since base [5] and its units [width], which are 1 if width is 0
--           level:number, above     at most FAN_OUT records, one for each full node below: time of its newest entry [7]
--                                   and sum of its units [5]
--         The live entries begin in node `first` of level 0, after `skip` expired entries. Nodes before `first` are garbage;
--         nodes before `kept` are removed. The last node of each level is not full and has no record above. Nodes after it
--         are garbage from before the clock went back: every read is bounded by `last`.
-- Twin    src/algorithm/sliding_window_log.rs, which explains the formulas; same names, same integer steps.
-- Writes  HSET and PEXPIRE when charged. Nothing when denied, unless entries have expired: an expired entry must stay expired
--         when the clock goes back. Only `save` writes, so that a peek and a state found corrupt later write nothing.
local log = {}

local ENTRIES = 61 -- of one unit each, which fill an allocation of 320 bytes in Redis
local FAN_OUT = 32 -- a search reads one or two nodes per level: both longer nodes and more levels make it slower
local BLOCK = 16 -- records read at a time
local MAX_I5 = 1099511627775 -- the largest number in 5 bytes
local MAX_REMOVED = 16 -- nodes of level 0 that one call removes: more than one call can add

-- Decodes the head of a node.
local function parse(level, text)
  local node = { text = text, head = 0, base = 0, width = 5, format = 'I7I5', size = 12 }
  if level == 0 then
    node.head, node.base, node.width = 8, struct.unpack('<I7B', text)
    node.format, node.size = node.width == 0 and 'I5' or 'I5I' .. math.min(node.width, 5), 5 + node.width
  end
  node.count = (#text - node.head) / node.size
  return node
end

-- Creates a node without entries, wide enough for `units`.
local function empty(time, units)
  local width = 0
  while units > 1 and units >= 256 ^ width do
    width = width + 1
  end
  return parse(0, pack('<I7B', time, width))
end

local function encode(node, time, units)
  return pack('<' .. node.format, time - node.base, units)
end

local function record(node, index)
  local time, units = struct.unpack('<' .. node.format, node.text, node.head + index * node.size + 1)
  return node.base + time, node.width == 0 and 1 or units
end

-- Replaces the record at `index` with `bytes`; an index after the last appends.
local function splice(node, index, bytes)
  local at = node.head + index * node.size
  node.text = string.sub(node.text, 1, at) .. bytes .. string.sub(node.text, at + node.size + 1)
  node.count = (#node.text - node.head) / node.size
end

-- Copies a node of entries into one wide enough for `units`.
local function widen(node, units)
  local wide = empty(node.base, units)
  local texts = { wide.text }
  for index = 0, node.count - 1 do
    texts[index + 2] = encode(wide, record(node, index))
  end
  return parse(0, table.concat(texts))
end

-- The number of the last node of a level, which equals the number of its nodes that have a record above.
local function last(self, level)
  return math.floor(self.last / FAN_OUT ^ level)
end

-- Reads a node. A malformed node marks the state corrupt and is treated as empty.
local function read(self, level, number)
  if level == 0 and number == self.last then
    return self.open
  end
  local id = level .. ':' .. number
  local count = level > 0 and math.min(last(self, level - 1) - number * FAN_OUT, FAN_OUT)
  if count == 0 then
    self.nodes[id] = parse(level, '')
  elseif not self.nodes[id] then
    local text = call('HGET', KEYS[self.key], id)
    local node = text and #text >= 8 and parse(level, text)
    if not node or node.width > 5 or (count and node.count ~= count) or node.count % 1 ~= 0 or node.count > ENTRIES then
      self.corrupt = true
      node = level == 0 and empty(0, 1) or parse(level, '')
    end
    self.nodes[id] = node
  end
  return self.nodes[id]
end

-- Searches the records of a node from `index` on for the first record that has units, is later than `after`, and with which the
-- sum of the units is at least `need`. Returns its index, time and units (nil if there is none), and the units before it.
local function scan(node, index, after, need, passed)
  while index < node.count do
    local block = math.min(BLOCK, node.count - index)
    local at = node.head + index * node.size + 1
    local values = { struct.unpack('<' .. string.rep(node.format, block), node.text, at) }
    local base, step = node.base, node.width == 0 and 1 or 2
    for i = 1, step * block, step do
      local time, units = base + values[i], step == 1 and 1 or values[i + 1]
      if time > after and passed + units >= need and units > 0 then
        return index, time, units, passed
      end
      passed, index = passed + units, index + 1
    end
  end
  return nil, nil, nil, passed
end

-- The units in a node.
local function units_in(node)
  return node.width == 0 and node.count or select(4, scan(node, 0, math.huge, 0, 0))
end

-- Searches the live entries by the condition of `scan`, from the first entry or from `number` and `index` on. Returns the entry,
-- or nil, and the units before it. Climbs from the start to a node that has the entry or leads to it, or to the last node of a
-- level; then descends: a few nodes per level. Searches only the last node if the entry must be there, as when nearly all expired.
local function find(self, after, need, number, index, passed)
  local level, leads, open = 0, false, self.open
  number, index, passed = number or self.first, index or self.skip, passed or 0
  if number < self.last and open.count > 0 then
    local before = self.used - units_in(open)
    self.corrupt = self.corrupt or before < passed
    if before < need or record(open, 0) <= after then
      number, index, passed = self.last, 0, before
    end
  end
  while not self.corrupt do
    local at, time, units
    at, time, units, passed = scan(read(self, level, number), index, after, need, passed)
    if at and level == 0 then
      self.corrupt = time > self.newest or passed + units > self.used
      return { number = number, index = at, time = time, units = units }, passed
    elseif at then
      level, number, index, leads = level - 1, number * FAN_OUT + at, 0, true
    elseif leads then
      self.corrupt = true -- the record above promises an entry that is missing
    elseif number < last(self, level) then
      level, number, index = level + 1, math.floor(number / FAN_OUT), number % FAN_OUT + 1
    elseif level > 0 then
      level, number, index = level - 1, last(self, level - 1), 0
    else
      break
    end
  end
  return nil, passed
end

-- Finds the newest entry: with it the sum of the units is `used`.
local function find_newest(self)
  local entry = self.open.count > 0 and { number = self.last, index = self.open.count - 1 }
  if entry then
    entry.time, entry.units = record(self.open, entry.index)
    return entry
  end
  entry = find(self, -1, self.used)
  self.corrupt = self.corrupt or not entry
  return entry or { number = self.last, index = 0, time = 0, units = 0 }
end

-- Marks a node to be written, or to be removed if it has no units.
local function mark_changed(self, level, number, node, units)
  local id = level .. ':' .. number
  self.nodes[id], self.changed[id] = node, units > 0 and node
end

-- Lowers the units of an entry, removes it at 0, and updates the sums above.
local function lower_units(self, entry, units)
  local level, number, node = 0, entry.number, read(self, 0, entry.number)
  local gone = entry.units - units
  self.used = self.used - gone
  splice(node, entry.index, units > 0 and encode(node, entry.time, units) or '')
  while number < last(self, level) do
    local above, index = read(self, level + 1, math.floor(number / FAN_OUT)), number % FAN_OUT
    if self.corrupt then
      return
    end
    local time, sum = record(above, index)
    sum = sum - gone
    local newest = node.count - 1
    while newest >= 0 and select(2, record(node, newest)) == 0 do
      newest = newest - 1
    end
    self.corrupt = sum < 0 or (sum == 0) ~= (newest < 0)
    splice(above, index, encode(above, newest >= 0 and record(node, newest) or time, sum))
    mark_changed(self, level, number, node, sum)
    level, number, node = level + 1, math.floor(number / FAN_OUT), above
  end
  if level > 0 then
    mark_changed(self, level, number, node, 1)
  end
end

-- Closes the last node of entries, so that the next entry begins a new node. Adds its record above, and the records of nodes
-- that become full by that.
local function close_last_node(self)
  local level, number, node = 0, self.last, self.open
  local time = record(node, node.count - 1)
  repeat
    local sum = units_in(node)
    mark_changed(self, level, number, node, sum)
    local above = read(self, level + 1, math.floor(number / FAN_OUT))
    -- With expired entries the sum may not fit 5 bytes. Such a sum is never used: searches begin after that node.
    splice(above, above.count, encode(above, time, math.min(sum, MAX_I5)))
    level, number, node = level + 1, math.floor(number / FAN_OUT), above
  until node.count < FAN_OUT
  mark_changed(self, level, number, node, 1)
  self.last = self.last + 1
end

-- Removes expired entries from the last node, if no other node is live.
local function trim(self)
  local open = self.open
  if self.first == self.last and self.skip > 0 then
    local live = string.sub(open.text, open.head + self.skip * open.size + 1)
    open.text, open.count = string.sub(open.text, 1, open.head) .. live, open.count - self.skip
    self.skip = 0
  end
end

local function push(self, time, units)
  trim(self)
  if self.used > 0 and self.newest == time then
    local entry = find_newest(self)
    units = units + entry.units
    lower_units(self, entry, 0)
  end
  local open, delta = self.open, time - self.open.base
  if open.count > 0 and (open.count == ENTRIES or delta < 0 or delta > MAX_I5) then
    close_last_node(self)
    open = empty(time, units)
  elseif open.count == 0 then
    open = empty(time, units)
  elseif units >= math.max(256 ^ open.width, 2) then
    open = widen(open, units)
  end
  if self.used == 0 then
    self.first, self.skip = self.last, open.count
  end
  splice(open, open.count, encode(open, time, units))
  self.open, self.newest, self.used, self.added = open, time, self.used + units, true
end

-- Starts an empty log that replaces the stored one.
local function reset(self)
  self.used, self.newest, self.first, self.skip, self.last, self.kept = 0, 0, 0, 0, 0, 0
  self.open, self.nodes, self.changed, self.replaces_stored = empty(0, 1), {}, {}, self.stored
end

local function create(key, window, stored)
  local self = { key = key, window = window, waits = {}, stored = stored }
  reset(self)
  return self
end

-- Reads the header of a log. Returns nil for a value that is no log, and the server's error, if any.
local function load(key, window)
  local header = redis.pcall('HGET', KEYS[key], 'h')
  local self = create(key, window, false)
  if not header then
    -- Without a header, only an absent key is valid.
    return call('PTTL', KEYS[key]) == -2 and self or nil
  elseif type(header) == 'table' then
    return nil, not string.find(header.err, 'WRONGTYPE', 1, true) and header or nil
  elseif #header < 37 or string.byte(header) ~= 108 then
    return nil
  end
  self.stored = true
  self.used, self.newest, self.first, self.skip, self.last, self.kept = struct.unpack('<I5I7I5BI5I5', header, 2)
  local open = parse(0, string.sub(header, 30))
  self.open = open
  local is_valid = self.used > 0
    and self.kept <= self.first
    and self.first <= self.last
    and open.width <= 5
    and open.count % 1 == 0
    and open.count <= ENTRIES
    and (open.count == 0 or record(open, open.count - 1) == self.newest)
    and (self.first < self.last or self.skip < open.count)
  return is_valid and self or nil
end

-- Merges all entries later than `now`, which stay when the clock goes back, into one entry at `now`. Truncates the tree where
-- they begin.
local function merge_future(self)
  local entry, passed = find(self, now, 0)
  if not entry then
    self.corrupt = true -- the newest entry, which the header names, is missing
    return
  end
  local future = self.used - passed
  if passed == 0 then
    reset(self)
  else
    local open, level, number = read(self, 0, entry.number), 0, entry.number
    while number < last(self, level) do
      local above, count = read(self, level + 1, math.floor(number / FAN_OUT)), number % FAN_OUT
      above.text, above.count = string.sub(above.text, 1, count * above.size), count
      level, number = level + 1, math.floor(number / FAN_OUT)
      mark_changed(self, level, number, above, count)
    end
    open.text, open.count = string.sub(open.text, 1, open.head + entry.index * open.size), entry.index
    self.last, self.open, self.used = entry.number, open, passed
    self.newest = find_newest(self).time
  end
  push(self, now, future)
end

-- Brings a log to `now`. Returns whether it must be written even if nothing is charged.
local function advance(self)
  local used_before = self.used
  local went_back = now < self.newest
  if went_back then
    merge_future(self)
  end
  self.expired = now - self.window - 1 -- the latest time that no longer counts
  if self.newest <= self.expired then
    reset(self)
  elseif self.used > 0 then
    local entry, passed = find(self, self.expired, 0)
    if entry then
      self.first, self.skip, self.used = entry.number, entry.index, self.used - passed
    else
      self.corrupt = true
    end
  end
  self.found_used, self.found_newest = self.used, self.newest
  return went_back or self.used < used_before
end

-- Reads the log at a key and brings it to `now`. Returns nil for a value that is no log, and the server's error, if any.
function log.open(key, window)
  local self, failure = load(key, window)
  if self then
    self.dirty = advance(self)
  end
  return self, failure
end

-- Creates an empty log that replaces a value of another type.
function log.replace(key, window)
  local self = create(key, window, true)
  self.dirty = advance(self)
  return self
end

function log.fits(self, cost, max)
  return self.used + cost <= max
end

function log.charge(self, cost)
  if cost > 0 then
    push(self, now, cost)
  end
end

-- Records how many units must expire until the cost fits.
function log.note_wait(self, cost, max)
  if cost <= max then
    self.waits[#self.waits + 1] = self.used + cost - max
  end
end

-- If no unit fits, records how many units must expire until one fits: responses report that wait as well.
function log.note_next_unit(self, max)
  if self.used >= max then
    self.waits[#self.waits + 1] = self.used + 1 - max
  end
end

-- Summarizes the log as it was found: its header, and the number of recorded waits (2 bytes); then for each wait the time of
-- the last unit that must expire (7 bytes), and the units from the wait before up to this unit (5 bytes). The process knows the
-- times of units charged in this call.
function log.summarize(self)
  local summaries, gone, earlier, number, index = {}, 0, self.expired, nil, nil
  table.sort(self.waits)
  for _, need in ipairs(self.waits) do
    if need > gone and need <= self.found_used then
      local entry, passed = find(self, earlier, need, number, index, gone)
      if not entry or entry.time > self.found_newest then
        self.corrupt = true
        break
      end
      local until_then = math.min(passed + entry.units, self.found_used)
      summaries[#summaries + 1] = pack('<I7I5', entry.time, until_then - gone)
      gone, earlier, number, index = until_then, entry.time, entry.number, entry.index + 1
    end
  end
  return pack('<c1I5I7I2', 'l', self.found_used, self.found_newest, #summaries) .. table.concat(summaries)
end

function log.save(self)
  local key = KEYS[self.key]
  if self.used == 0 or self.replaces_stored then
    call('UNLINK', key)
  end
  if self.used == 0 then
    return
  end
  local kept = math.min(self.kept + MAX_REMOVED, self.first)
  for node = self.kept, kept - 1 do
    local level = 0
    self.changed[level .. ':' .. node] = false
    -- A node above is removed with its last child.
    while node % FAN_OUT == FAN_OUT - 1 do
      level, node = level + 1, math.floor(node / FAN_OUT)
      self.changed[level .. ':' .. node] = false
    end
  end
  self.kept = kept
  local header = pack('<c1I5I7I5BI5I5', 'l', self.used, self.newest, self.first, self.skip, self.last, self.kept)
  local written, gone = { 'h', header .. self.open.text }, {}
  for id, node in pairs(self.changed) do
    if node then
      written[#written + 1], written[#written + 2] = id, node.text
    else
      gone[#gone + 1] = id
    end
  end
  call('HSET', key, unpack(written))
  if gone[1] then
    call('HDEL', key, unpack(gone))
  end
  if self.added then
    call('PEXPIRE', key, millis(self.window + 1))
  end
end

-- refund:
function log.refund(self, cost, at)
  local entry = find(self, at - 1, 0)
  if not entry or entry.time ~= at then
    return
  end
  lower_units(self, entry, math.max(entry.units - cost, 0))
  if cost >= entry.units and self.used > 0 then
    self.newest = self.newest == at and find_newest(self).time or self.newest
    -- The node with the first live entry may be empty now.
    local first = find(self, -1, 0)
    self.corrupt = self.corrupt or not first
    self.first, self.skip = first and first.number, first and first.index
  end
end
