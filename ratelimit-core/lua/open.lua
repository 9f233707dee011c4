-- open.lua: reads states, and runs steps on them. The first of four files, the rest of check.lua: they judge the requests about
-- the keys that are left, one by one in their order. Each request sees what the requests before it were charged, as if it had
-- come in a call of its own at the same instant. Changes are kept in `values`, and all.lua writes them at the end.
-- Block   in place of any state: string, 8 bytes: 'b', until (7 bytes, little-endian, microseconds). Twin of
--         src/algorithm/block.rs
args = args or { decode('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
local requests = { decode('<' .. string.rep('d', #ARGV[2] / 8), ARGV[2]) } -- and the position behind the last number

-- By number of the key:
local values = {} -- the state with the charges so far, false for none
local ttls = {} -- the TTL to write the state with; false to write only its five bytes from the ninth on; nil to write nothing
local logs = {} -- the log that was found there
local corrupt = {} -- the window of a policy, if the state is corrupt
local seen = {} -- what the step of slots found
local again -- whether a state turned out to be corrupt after it was used
local blocks = (ARGV[3] or '') ~= '' and { decode('<' .. string.rep('d', policies), ARGV[3]) } or {}
local LONGEST = 31622400000000 -- of all windows and blocks

-- The end of a block; nil for a value that is no block.
local function end_of_block(value)
  if type(value) == 'string' and #value == 8 and string.byte(value) == 98 then -- 'b'
    return (decode('<I7', value, 2))
  end
end

-- Reads a state into `values`, or notes that it is corrupt. Returns the server's error, if any. `policy` is its place in args.
local function open(key, policy)
  local value, failure = stored[key], nil
  if not steps[args[policy - 1]] then
    value, failure = log.open(key, args[policy + 1])
    if not value and not failure then
      stored[key] = redis.pcall('GET', KEYS[key])
    end
  elseif not value then
    value = redis.pcall('GET', KEYS[key])
    if value then -- of another type
      value, failure = nil, not string.find(value.err, 'WRONGTYPE', 1, true) and value or nil
    end
  end
  local ends = end_of_block(stored[key])
  if ends and ends > now then
    value = stored[key]
  elseif ends then
    value = not steps[args[policy - 1]] and log.replace(key, args[policy + 1])
  end
  values[key], logs[key] = value, type(value) == 'table' and value or nil
  corrupt[key] = value == nil and args[policy + 1] or nil
  return failure
end

-- Runs the step of a cost on a state, which it does not change. During a block no cost fits.
local function step(key, policy, cost)
  local ends, longest = end_of_block(values[key]), blocks[policy / 4] or 0
  if not ends then
    return steps[args[policy - 1]](values[key], cost, args[policy], args[policy + 1], args[policy + 2], key, seen)
  end
  longest = longest > 0 and longest or LONGEST
  if ends > now + longest then -- the clock went back
    return false, pack('<c1I7', 'b', now + longest), longest
  end
  return false
end

-- The length of the block that begins because a cost does not fit: 0 if the policy has none, if it has begun already, or if the
-- cost never passes.
local function block_of(key, policy, cost)
  local block, first = blocks[policy / 4] or 0, steps[args[policy - 1]]
  if block == 0 or end_of_block(values[key]) then
    return 0
  elseif first then -- a new caller's step
    return first(false, cost, args[policy], args[policy + 1], args[policy + 2]) and block or 0
  end
  return cost <= args[policy] and block or 0
end

-- A log whose sum fits is charged once, as the other states were in check.lua.
for key in pairs(log and left or {}) do
  local place = 1 + 4 * policies + 2 * key
  local policy, sum = 4 * args[place], args[place + 1]
  if not steps[args[policy - 1]] and sum >= 0 then
    local failure = open(key, policy)
    local state = values[key]
    if failure then
      return failure
    elseif type(state) == 'table' and log.fits(state, sum, args[policy]) then
      log.charge(state, sum)
      log.note_next_unit(state, args[policy])
      stored[key] = log.summarize(state)
      if not state.corrupt then
        log.save(state)
        left[key] = nil
      end
    end
  end
end
if not next(left) then
  return pack('<d', now) .. table.concat(stored)
end
