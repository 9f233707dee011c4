-- token_bucket.lua: `burst` tokens when full, refilled at `max` per window, kept as one instant.
-- State   string, 13 bytes: 't', tat: whole microseconds (7 bytes, little-endian) and a numerator over `max` (5 bytes)
-- Twin    src/algorithm/token_bucket.rs, which explains the formulas; same names, same integer steps. Here an instant or span
--         is two numbers, micros and fraction.
-- Writes  nothing when denied, one SET when charged.
local token_bucket = {}
algorithms[4] = token_bucket

function token_bucket.load(key, policy)
  local value, failure = read_string(key)
  if value == '' then
    return { tat_micros = 0, tat_fraction = 0, policy = policy, unsaved = false }
  elseif value and #value == 13 then
    local tag, micros, fraction = struct.unpack('<BI7I5', value)
    if tag == 116 and fraction < policy.max then
      return { tat_micros = micros, tat_fraction = fraction, policy = policy, unsaved = false }
    end
  end
  return nil, failure
end

function token_bucket.advance(self, policy)
  if self.tat_micros < now then
    self.tat_micros, self.tat_fraction = now, 0
    return false
  end
  local full_micros, full_fraction = full(policy)
  local empty_micros, empty_fraction = now + full_micros, full_fraction
  local went_back = later(self.tat_micros, self.tat_fraction, empty_micros, empty_fraction)
  if went_back then
    self.tat_micros, self.tat_fraction = empty_micros, empty_fraction
  end
  return went_back
end

function token_bucket.fits(self, policy, cost)
  if cost > policy.burst then
    return false
  end
  local micros, fraction = refill(policy.burst - cost, policy)
  return not later(self.tat_micros, self.tat_fraction, now + micros, fraction)
end

function token_bucket.charge(self, policy, cost)
  local micros, fraction = refill(cost, policy)
  self.tat_micros, self.tat_fraction = plus(self.tat_micros, self.tat_fraction, micros, fraction, policy.max)
end

function token_bucket.refund(self, policy, cost, at, valid_until)
  local micros, fraction = refill(cost, policy)
  -- `valid_until` is rounded up, so the exact instant is after `valid_until - 1`. It is also not before the instant at which a
  -- bucket full before the charge is full again. The later of these two bounds is therefore never too late.
  local until_micros, until_fraction = plus(at, 0, micros, fraction, policy.max)
  if valid_until - 1 > until_micros then
    until_micros, until_fraction = valid_until - 1, 0
  end
  if until_micros < now then
    until_micros, until_fraction = now, 0
  end
  if later(micros, fraction, until_micros - now, until_fraction) then
    micros, fraction = until_micros - now, until_fraction
  end
  if later(self.tat_micros, self.tat_fraction, now + micros, fraction) then
    self.tat_micros, self.tat_fraction = minus(self.tat_micros, self.tat_fraction, micros, fraction, policy.max)
  else
    self.tat_micros, self.tat_fraction = now, 0
  end
end

function token_bucket.save(self, key)
  local value = pack('<c1I7I5', 't', self.tat_micros, self.tat_fraction)
  local ttl = millis(self.tat_micros + (self.tat_fraction > 0 and 1 or 0) - now)
  call('SET', KEYS[key], value, 'PX', ttl)
end

