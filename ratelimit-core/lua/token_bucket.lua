-- token_bucket.lua: a bucket of `burst` tokens, refilled at `max` per window, kept as one instant.
-- State   string, 13 bytes: 't', tat: whole microseconds (7 bytes, little-endian) and a numerator over `max` (5 bytes);
--         or, of a bucket that may be in debt, 20 bytes: 'd', the same, and the instant of the last settlement (7 bytes)
-- Twin    src/algorithm/token_bucket.rs, which explains the formulas; same names, same integer steps. An instant or a
--         span is two numbers here, micros and fraction.
repeat
  local tag, tat_micros, tat_fraction, indebted_at, went_back = 116, 0, 0, nil, false -- 't'
  if value then
    if #value ~= 13 then
      if #value ~= 20 or string.byte(value) ~= 100 then -- 'd'
        break
      end
      indebted_at = decode('<I7', value, 14)
    end
    tag, tat_micros, tat_fraction = decode('<BI7I5', value)
    if tag ~= 116 and not indebted_at or tat_fraction >= max then
      break
    elseif indebted_at then
      local longest = indebted_at + 31622400000000 -- 366 days
      if tat_micros < indebted_at or tat_micros > longest or (tat_micros == longest and tat_fraction > 0) then
        break
      end
      local micros, fraction = mul_div(shape, window, max)
      micros = now + micros
      local in_debt = tat_micros > micros or (tat_micros == micros and tat_fraction > fraction)
      if in_debt and now < indebted_at then -- the clock went back, and the debt with it
        tat_micros, indebted_at, went_back = tat_micros - (indebted_at - now), now, true
        in_debt = tat_micros > micros or (tat_micros == micros and tat_fraction > fraction)
      end
      indebted_at = in_debt and indebted_at
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
  if not fits and (indebted_at or went_back) then
    if went_back then
      bytes = pack('<c1I7I5', indebted_at and 'd' or 't', tat_micros, tat_fraction)
      bytes, ttl = bytes .. (indebted_at and pack('<I7', indebted_at) or ''), tat_micros - now + 1
    end
    break
  elseif not fits then
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
  return pack('<c1I7I5', string.sub(value, 1, 1), tat_micros, tat_fraction) .. string.sub(value, 14), ttl
end
