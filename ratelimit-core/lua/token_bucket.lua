-- token_bucket.lua: a bucket of `burst` tokens, refilled at `max` per window, kept as one instant.
-- State   string, 13 bytes: 't', tat: whole microseconds (7 bytes, little-endian) and a numerator over `max` (5 bytes)
-- Twin    src/algorithm/token_bucket.rs, which explains the formulas; same names, same integer steps. An instant or a
--         span is two numbers here, micros and fraction.
repeat
  local tag, tat_micros, tat_fraction = 116, 0, 0 -- 't'
  if value then
    if #value ~= 13 then
      break
    end
    tag, tat_micros, tat_fraction = decode('<BI7I5', value)
    if tag ~= 116 or tat_fraction >= max then
      break
    end
  end
  if tat_micros < now then
    tat_micros, tat_fraction = now, 0
  end
  local micros, fraction
  fits = cost <= shape
  if fits and (tat_micros > now or tat_fraction > 0) then -- not full
    micros, fraction = mul_div(shape - cost, window, max)
    micros = now + micros
    fits = tat_micros < micros or (tat_micros == micros and tat_fraction <= fraction)
  end
  if not fits then
    micros, fraction = mul_div(shape, window, max)
    micros = now + micros
    if tat_micros < micros or (tat_micros == micros and tat_fraction <= fraction) then
      break
    end
    -- The state is emptier than empty, because the clock went back.
    tat_micros, tat_fraction, fits = micros, fraction, cost == 0
  elseif cost > 0 then
    micros, fraction = mul_div(cost, window, max)
    tat_micros, tat_fraction = tat_micros + micros, tat_fraction + fraction
    if tat_fraction >= max then
      tat_micros, tat_fraction = tat_micros + 1, tat_fraction - max
    end
  end
  bytes = pack('<c1I7I5', 't', tat_micros, tat_fraction)
  ttl = tat_micros - now + (tat_fraction > 0 and 1 or 0)
until true
-- refund:
local function is_later(micros, fraction, other_micros, other_fraction)
  return micros > other_micros or (micros == other_micros and fraction > other_fraction)
end

refunds[4] = function(value, cost, at, valid_until, max, window)
  local _, tat_micros, tat_fraction = decode('<BI7I5', value)
  local micros, fraction = mul_div(cost, window, max)
  -- The exact end of validity: `valid_until` is it rounded up, so it is later than the microsecond before. And it is not
  -- before the instant at which a bucket that was full at `at` is full again. The later of the two is surely not too late.
  local until_micros, until_fraction = at + micros, fraction
  if valid_until - 1 > until_micros then
    until_micros, until_fraction = valid_until - 1, 0
  end
  if until_micros < now then
    until_micros, until_fraction = now, 0
  end
  if is_later(micros, fraction, until_micros - now, until_fraction) then
    micros, fraction = until_micros - now, until_fraction
  end
  if is_later(tat_micros, tat_fraction, now + micros, fraction) then
    tat_micros, tat_fraction = tat_micros - micros, tat_fraction - fraction
    if tat_fraction < 0 then
      tat_micros, tat_fraction = tat_micros - 1, tat_fraction + max
    end
  else
    tat_micros, tat_fraction = now, 0
  end
  local ttl = tat_micros - now + (tat_fraction > 0 and 1 or 0)
  return pack('<c1I7I5', 't', tat_micros, tat_fraction), ttl
end
