-- refill.lua: rational arithmetic of token buckets. An instant or span is two numbers: whole microseconds, and the numerator
-- of a fraction over `max`.
local function plus(micros, fraction, other_micros, other_fraction, max)
  fraction = fraction + other_fraction
  micros = micros + other_micros
  if fraction >= max then
    return micros + 1, fraction - max
  end
  return micros, fraction
end

local function minus(micros, fraction, other_micros, other_fraction, max)
  if fraction < other_fraction then
    return micros - other_micros - 1, fraction + max - other_fraction
  end
  return micros - other_micros, fraction - other_fraction
end

local function later(micros, fraction, other_micros, other_fraction)
  return micros > other_micros or (micros == other_micros and fraction > other_fraction)
end

-- The time in which `tokens` refill.
local function refill(tokens, policy)
  return mul_div(tokens, policy.window, policy.max)
end

-- The time in which an empty bucket fills up, computed once per policy.
local function full(policy)
  if not policy.full_micros then
    policy.full_micros, policy.full_fraction = refill(policy.burst, policy)
  end
  return policy.full_micros, policy.full_fraction
end

