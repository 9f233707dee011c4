-- fixed_window.lua: one count, which starts anew at every multiple of the window since the epoch.
-- State   string, 13 bytes: 'f', start (7 bytes, little-endian microseconds), count (5 bytes)
-- Twin    src/algorithm/fixed_window.rs, which explains the formulas; same names, same integer steps.
-- Writes  one SET where a window starts, one SETRANGE inside it.
local fixed_window = {}
algorithms[1] = fixed_window

function fixed_window.load(key, _, stored)
  local failure
  stored, failure = read_string(key, stored)
  if stored == '' then
    return { start = 0, count = 0, rewrite = true, fresh = true }
  elseif not stored or #stored ~= 13 or string.byte(stored) ~= 102 then
    return nil, failure
  end
  local start, count = struct.unpack('<I7I5', stored, 2)
  return { start = start, count = count }
end

function fixed_window.settle(self, policy, now)
  local window = policy.window
  local went_back = self.count > 0 and now < self.start
  if went_back then
    self.start = now
    self.rewrite = true
  elseif self.count == 0 or now - self.start >= window then
    self.start = now - now % window
    self.count = 0
    self.rewrite = true
  end
  return went_back
end

function fixed_window.fits(self, policy, _, cost)
  return self.count + cost <= policy.max
end

function fixed_window.charge(self, _, _, cost)
  self.count = self.count + cost
end

function fixed_window.remaining(self, policy)
  return math.max(policy.max - self.count, 0)
end

function fixed_window.reset_after(self, policy, now)
  if self.count == 0 then
    return 0
  end
  return self.start + policy.window - now
end

function fixed_window.retry_after(self, policy, now, cost)
  if cost > policy.max then
    return nil
  end
  return self.start + policy.window - now
end

function fixed_window.refund(self, policy, _, at, _, cost)
  if self.start <= at and at - self.start < policy.window then
    self.count = math.max(self.count - cost, 0)
  end
end

function fixed_window.save(self, key, policy, now, at_least)
  if self.rewrite then
    local ttl = millis(self.start + policy.window - now, at_least)
    redis.call('SET', key, struct.pack('<c1I7I5', 'f', self.start, self.count), 'PX', ttl)
  else
    redis.call('SETRANGE', key, '8', struct.pack('<I5', self.count))
  end
end

