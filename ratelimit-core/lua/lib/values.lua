-- values.lua: read stored values that may be corrupt.

-- Returns the string at a key, or '' if the key is absent. Returns nil if the value is corrupt: another type, or an empty
-- string, which is no state. Returns nil and the error if the server refuses to read.
local function read_string(key)
  local value = stored[key] or redis.pcall('GET', KEYS[key])
  if value == false then
    return ''
  elseif type(value) == 'string' then
    return value ~= '' and value or nil
  elseif string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, value
end

