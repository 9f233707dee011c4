-- quick/token_bucket.lua: fast step of a token bucket, unless the clock went back.
-- Twin    ../token_bucket.lua, which describes the state; the same steps fused into one function.
fast_steps[4] = function(key, policy, total)
  local value = stored[key]
  -- A total above the capacity is judged request by request; it could also exceed the bounds of `mul_div`.
  if total > policy.burst then
    return false
  end
  local tag, tat_micros, tat_fraction = 116, 0, 0
  if value then
    if #value ~= 13 then
      return false
    end
    tag, tat_micros, tat_fraction = struct.unpack('<BI7I5', value)
  end
  local full_micros, full_fraction = full(policy)
  if
    tag ~= 116
    or tat_fraction >= policy.max
    or later(tat_micros, tat_fraction, now + full_micros, full_fraction)
  then
    return false
  end
  if tat_micros < now then
    tat_micros, tat_fraction = now, 0
  end
  local micros, fraction = refill(total, policy)
  tat_micros, tat_fraction = plus(tat_micros, tat_fraction, micros, fraction, policy.max)
  if later(tat_micros, tat_fraction, now + full_micros, full_fraction) then
    return false
  end
  local state = pack('<c1I7I5', 't', tat_micros, tat_fraction)
  local ttl = millis(tat_micros + (tat_fraction > 0 and 1 or 0) - now)
  if value then
    return call('SET', KEYS[key], state, 'PX', ttl)
  end
  -- NX fails if the key exists after all, with another type.
  return call('SET', KEYS[key], state, 'PX', ttl, 'NX')
end

