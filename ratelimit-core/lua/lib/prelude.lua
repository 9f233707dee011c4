-- prelude.lua: what every script starts with.
local call, pack = redis.call, struct.pack -- looking them up by name takes as long as much of what they are called for

-- By the number that ARGV uses: the steps of the algorithms, and all steps of one at once; their files add themselves.
local algorithms, takes = {}, {}

-- A string of little-endian doubles.
local function doubles(bytes)
  local numbers = { struct.unpack('<' .. string.rep('d', #bytes / 8), bytes) }
  numbers[#numbers] = nil -- the position behind the last, which unpack adds
  return numbers
end

local args = doubles(ARGV[1])

-- The instant of the decision, in microseconds. The server's clock decides; tests pass their own instead of -1.
-- Under a test's clock nothing may expire by the real one, so there every key lives an hour at least.
local now, at_least = args[1], 3600000
if now < 0 then
  local time = call('TIME')
  now, at_least = time[1] * 1000000 + time[2], 1
end

-- Milliseconds, rounded up, that something must live to last `micros`, and a second more: a server counts from when it
-- began the script, which may be well before it told the time.
local function millis(micros)
  return math.max(math.ceil(micros / 1000) + 1000, at_least)
end

-- One call reads all strings. What is false holds none: nothing, or something else.
local stored = #KEYS > 0 and call('MGET', unpack(KEYS)) or {}

