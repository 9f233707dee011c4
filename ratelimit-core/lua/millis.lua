-- millis.lua: the TTL in milliseconds of what matters for `micros`: rounded up, and a second more, because the server may count
-- an expiry from the start of the script, and read the clock later. check.lua holds it inline.
local function millis(micros)
  return math.max(math.ceil(micros / 1000) + 1000, at_least)
end

