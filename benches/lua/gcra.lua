-- A leaky bucket in the manner of the usual GCRA scripts: the theoretical arrival time in a string, the server's clock.
-- ARGV: microseconds for one unit, microseconds for a full burst. Back: passed, remaining, wait, time until empty.
local step, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + step
local room = now + burst - due
if room < 0 then
  return { 0, 0, -room, due - step - now }
end
redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000))
return { 1, math.floor(room / step), 0, due - now }
