-- fixed_window.lua: one count per window; windows start at multiples of their length since the epoch.
-- State   string, 13 bytes: 'f', start (7 bytes, little-endian microseconds), count (5 bytes)
-- Twin    src/algorithm/fixed_window.rs, which explains the formulas; same names, same integer steps.
-- Writes  one SET when a window starts, one SETRANGE inside it.
local fixed_window = {}
algorithms[1] = fixed_window

function fixed_window.load(key, policy)
  local value, failure = read_string(key)
  if value == '' then
    return { start = 0, count = 0, policy = policy, unsaved = false, rewrite = true }
  elseif value and #value == 13 then
    local tag, start, count = struct.unpack('<BI7I5', value)
    if tag == 102 then
      return { start = start, count = count, policy = policy, unsaved = false, rewrite = false }
    end
  end
  return nil, failure
end

function fixed_window.advance(self, policy)
  local window = policy.window
  local went_back = self.count > 0 and now < self.start
  if went_back then
    self.start, self.rewrite = now, true
  elseif self.count == 0 or now - self.start >= window then
    self.start, self.count, self.rewrite = now - now % window, 0, true
  end
  return went_back
end

function fixed_window.fits(self, policy, cost)
  return self.count + cost <= policy.max
end

function fixed_window.charge(self, _, cost)
  self.count = self.count + cost
end

function fixed_window.refund(self, policy, cost, at)
  if self.start <= at and at - self.start < policy.window then
    self.count = math.max(self.count - cost, 0)
  end
end

function fixed_window.save(self, key, policy)
  if self.rewrite then
    local ttl = millis(self.start + policy.window - now)
    call('SET', KEYS[key], pack('<c1I7I5', 'f', self.start, self.count), 'PX', ttl)
  else
    call('SETRANGE', KEYS[key], '8', pack('<I5', self.count))
  end
end

