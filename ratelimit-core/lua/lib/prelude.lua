-- prelude.lua: what every script starts with.
local algorithms = {} -- by the number that ARGV uses; each algorithm's file adds itself

-- ARGV: one string of little-endian doubles.
local args = { struct.unpack('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
args[#args] = nil -- the position behind the last, which unpack adds

-- The instant of the decision, in microseconds. The server's clock decides; tests pass their own instead of 0.
-- Under a test's clock nothing may expire by the real one, so there every key lives an hour at least.
local now, at_least = args[1], 3600000
if now == 0 then
  local time = redis.call('TIME')
  now, at_least = time[1] * 1000000 + time[2], 1
end

-- One call reads all strings. What is false holds none: nothing, or something else.
local stored = #KEYS > 1 and redis.call('MGET', unpack(KEYS)) or {}

-- The string at a key, '' when there is none. The second result is the error when it cannot be read; a value of another
-- type is only a foreign value, and yields nil and no error.
local function read_string(key)
  local value = stored[key] or redis.pcall('GET', KEYS[key])
  if value == false then
    return ''
  elseif type(value) == 'string' then
    return value
  elseif string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, value
end

-- Milliseconds, rounded up, that something must live to last `micros`.
local function millis(micros)
  return math.max(math.ceil(micros / 1000), at_least)
end

