-- millis.lua: the TTL in milliseconds of a state that counts for `micros`: rounded up, and a second more, because the server may
-- count an expiry from the start of the script, and read the clock later. check.lua has it inline.
local function millis(micros)
  return math.max(math.ceil(micros / 1000) + 1000, at_least)
end

