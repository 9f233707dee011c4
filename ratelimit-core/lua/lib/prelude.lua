-- prelude.lua: the start of every script: ARGV, the clock, and the strings stored at the keys.
local call, pack = redis.call, struct.pack -- locals, since a lookup by name costs about as much as a short call

-- By the algorithm's number in ARGV: its steps, and its fast step. Each algorithm's file adds itself.
local algorithms, fast_steps = {}, {}

-- Decodes a string of little-endian doubles.
local function doubles(bytes)
  local numbers = { struct.unpack('<' .. string.rep('d', #bytes / 8), bytes) }
  numbers[#numbers] = nil -- unpack appends the position after the last number
  return numbers
end

local args = doubles(ARGV[1])

-- The instant of the decision, in microseconds, by the server's clock. A test passes its own instant instead of -1. Then
-- every TTL is at least an hour, so that no key expires by the real clock.
local now, min_ttl = args[1], 3600000
if now < 0 then
  local time = call('TIME')
  now, min_ttl = time[1] * 1000000 + time[2], 1
end

-- The TTL in milliseconds, rounded up, for `micros` microseconds, plus one second: the server counts a TTL from the start of
-- the script, which can be well before its TIME.
local function millis(micros)
  return math.max(math.ceil(micros / 1000) + 1000, min_ttl)
end

-- One call reads all strings. False means that the key is absent or has another type.
local stored = #KEYS > 0 and call('MGET', unpack(KEYS)) or {}

