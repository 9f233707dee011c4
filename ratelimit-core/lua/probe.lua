-- probe.lua: tries every command and library that the other scripts use, before a new connection is used.
-- KEYS    1: a key with no other use; 2..: keys to write, which the process then removes
-- Reply   the server's time in microseconds, or with KEYS[2..] how many of these existed before; or the error about the
--         first command that the server refuses, with its name
local failure
local function try(name, ...)
  if failure then
    return
  end
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    failure = { err = reply.err .. ' (' .. name .. ')' }
  end
  return reply
end

local time = try('TIME')
struct.unpack('<I7', struct.pack('<I7', 1)) -- a server without the library replies with an error that names it
try('SET', KEYS[1], 'probe', 'PX', 1000)
try('SETRANGE', KEYS[1], 0, 'P')
try('GET', KEYS[1])
try('MGET', KEYS[1])
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], 1000)
try('UNLINK', KEYS[1])
try('HSET', KEYS[1], 'probe', 'p')
-- Removes the key if UNLINK is refused below.
try('PEXPIRE', KEYS[1], 1000)
try('HGET', KEYS[1], 'probe')
try('HDEL', KEYS[1], 'probe')
try('UNLINK', KEYS[1])
local there = 0
for i = 2, #KEYS do
  if not try('SET', KEYS[i], 'probe', 'PX', 10000, 'NX') then
    there = there + 1
  end
end
return failure or #KEYS > 1 and there or time[1] * 1000000 + time[2]
