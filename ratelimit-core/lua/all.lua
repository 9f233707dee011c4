-- all.lua: judges all requests that are left, writes what changed, and replies.
-- A state may turn out to be corrupt when it is used. Nothing has been written by then, so all requests are judged again.
local verdicts
repeat
  verdicts, again = {}, false
  local request = 1
  while request < #requests do
    local header = requests[request]
    local first, last, operation = request + 1, request + 3 * (math.abs(header) % 256), math.floor(header / 256)
    local verdict, failure = '1', nil
    if left[requests[first]] and operation >= 3 then
      verdict, failure = overdraw(first, operation == 4 and requests[first + 2])
    elseif left[requests[first]] then
      verdict, failure = judge(first, last, header < 0, operation == 1, operation == 2)
    end
    if failure then
      return failure
    end
    verdicts[#verdicts + 1] = verdict
    request = last + 1
  end
  for key in pairs(left) do
    local state = logs[key]
    if state then
      stored[key] = log.summarize(state)
      if state.corrupt then
        corrupt[key], again = state.window, true
      end
    end
  end
  if again then
    values, ttls, logs = {}, {}, {}
  end
until not again

for key = 1, #KEYS do
  local value, ttl = values[key], ttls[key]
  if corrupt[key] then
    local lives, most = call('PTTL', KEYS[key]), millis(corrupt[key])
    if lives < 0 or lives > most then
      call('PEXPIRE', KEYS[key], most)
    end
    stored[key] = '!'
  elseif ttl == false then
    call('SETRANGE', KEYS[key], '8', string.sub(value, 9, 13))
  elseif type(value) == 'table' and ttl then
    log.save(value)
  elseif ttl then
    if logs[key] then -- a tree, which is freed in another thread
      call('UNLINK', KEYS[key])
    end
    call('SET', KEYS[key], value, 'PX', millis(ttl))
  end
  stored[key] = stored[key] or '.'
end
return pack('<d', now) .. table.concat(stored) .. table.concat(verdicts)
