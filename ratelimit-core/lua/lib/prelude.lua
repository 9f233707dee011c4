-- prelude.lua: what every script starts with.
local algorithms = {} -- by the number that ARGV uses; each algorithm's file adds itself

-- The instant of the decision, in microseconds. The server's clock decides; tests pass their own instead of 0.
-- Under a test's clock nothing may expire by the real one, so there every key lives an hour at least.
local function clock(injected)
  if injected > 0 then
    return injected, 3600000
  end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2], 1
end

-- The string at `key`, '' when there is none; `stored` if that was read already. The second result is the error when it
-- cannot be read; a value of another type is only a foreign value, and yields nil and no error.
local function read_string(key, stored)
  stored = stored or redis.pcall('GET', key)
  if stored == false then
    return ''
  elseif type(stored) == 'string' then
    return stored
  elseif string.find(stored.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, stored
end

-- Milliseconds, rounded up, that something must live to last `micros`.
local function millis(micros, at_least)
  return math.max(math.ceil(micros / 1000), at_least)
end

