-- values.lua: reading values that may not be ours.

-- The string at a key, '' when there is none. The second result is the error when it cannot be read; a value of another
-- type, or an empty string, which no state is, is only a foreign value, and yields nil and no error.
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

