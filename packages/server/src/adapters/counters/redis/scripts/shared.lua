-- Comes before every other script.
--
-- KEYS[1]  hash: generation, run_id of the server, ready_at, last fence
-- KEYS[2]  start of the names of all other keys; contains the generation
-- ARGV[1]  generation that the caller knows
-- ARGV[2]  time in milliseconds, or '' for the time of this server
--
-- <root>owners         sorted set: owner, end of its lease
-- <root>held:<owner>   hash: admission, what it holds as JSON {c: counters, b: [[budget, reserved]], x: chargeable budgets}
-- <root>running        hash: concurrency counter, running requests
-- <root>bucket:<id>    '<level> <time>'; absent: full. Levels count sixty-thousandths, see domain/token-bucket.ts
-- <root>budget:<id>    hash: read, fence, spent, reserved
local meta, root = KEYS[1], KEYS[2]
local now = tonumber(ARGV[2])
if now == nil then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local PARTS = 60000
local DAY_MS = 86400000
-- Longer than the month of a budget.
local BUDGET_MS = 40 * DAY_MS

local position = 2
local function argument()
  position = position + 1
  return ARGV[position]
end
local function number()
  return tonumber(argument())
end

-- Lua would write large numbers with an exponent. Redis does not take the -0 that a zero becomes when it is given back.
local function integer(value)
  return string.format('%.0f', value + 0)
end

-- The data was lost or belongs to an earlier run of the server: the caller has to join again.
local function is_lost()
  return redis.call('HGET', meta, 'generation') ~= ARGV[1]
end

local function extend_lease(owner, lease_ms)
  redis.call('ZADD', root .. 'owners', 'GT', integer(now + lease_ms), owner)
end

local function next_fence()
  return redis.call('HINCRBY', meta, 'fence', 1)
end

local function set_level(id, per_minute, level, updated)
  local key, missing = root .. 'bucket:' .. id, per_minute * PARTS - level
  if missing <= 0 then
    redis.call('DEL', key)
  else
    local ttl = math.ceil(missing / per_minute) + 1000
    redis.call('SET', key, integer(level) .. ' ' .. integer(updated), 'PX', integer(ttl))
  end
end

local function level_of(id, per_minute)
  local capacity = per_minute * PARTS
  local stored = redis.call('GET', root .. 'bucket:' .. id)
  if not stored then return capacity, now end
  local level, updated = string.match(stored, '^(%S+) (%S+)$')
  level, updated = tonumber(level), tonumber(updated)
  -- The clock was set back. Stored at once: a refusal stores nothing, and the bucket would get nothing until that time comes again.
  if updated - now > 60000 then
    updated = now
    set_level(id, per_minute, level, updated)
  end
  return math.min(capacity, level + math.max(0, now - updated) * per_minute), math.max(now, updated)
end

-- Reads an amount and the buckets to take it from. False when one of them has too little.
local function read_buckets(buckets)
  local amount, has_room = number(), true
  for _ = 1, number() do
    local bucket = { id = argument(), per_minute = number(), amount = amount }
    bucket.level, bucket.updated = level_of(bucket.id, bucket.per_minute)
    -- More than the whole bucket is admitted when it is full, and leaves a debt.
    local needed = math.min(amount, math.max(1, bucket.per_minute))
    if bucket.level < needed * PARTS then has_room = false end
    buckets[#buckets + 1] = bucket
  end
  return has_room
end

local function take_from(buckets)
  for _, bucket in ipairs(buckets) do
    bucket.level = bucket.level - bucket.amount * PARTS
    set_level(bucket.id, bucket.per_minute, bucket.level, bucket.updated)
  end
end

local function add_running(id, change)
  if redis.call('HINCRBY', root .. 'running', id, change) <= 0 then redis.call('HDEL', root .. 'running', id) end
end

local function add_reserved(id, nano_usd)
  local key = root .. 'budget:' .. id
  if redis.call('EXISTS', key) == 1 then redis.call('HINCRBY', key, 'reserved', integer(nano_usd)) end
end

-- Reads budgets and what to reserve of each. Adds to `unread` the index and the fence of those to be read from the ledger first. False when
-- one of them has too little.
local function read_budgets(budgets, unread)
  local has_room = true
  for index = 1, number() do
    local budget, limit, ttl = { key = root .. 'budget:' .. argument() }, number(), nil
    budget.reserve, ttl = number(), argument()
    local is_read, fence, spent, reserved = unpack(redis.call('HMGET', budget.key, 'read', 'fence', 'spent', 'reserved'))
    if not fence then
      fence = next_fence()
      redis.call('HSET', budget.key, 'read', '0', 'fence', fence, 'spent', '0', 'reserved', reserved or '0')
      redis.call('PEXPIRE', budget.key, ttl)
    end
    if is_read ~= '1' then
      unread[#unread + 1] = index
      unread[#unread + 1] = tonumber(fence)
    else
      budget.spent, budget.reserved = tonumber(spent), tonumber(reserved)
      -- As in domain/budget.ts.
      if budget.spent >= limit or budget.spent + budget.reserved + budget.reserve > limit then has_room = false end
    end
    budgets[index] = budget
  end
  return has_room
end

local function reserve(budgets)
  for _, budget in ipairs(budgets) do
    budget.reserved = redis.call('HINCRBY', budget.key, 'reserved', integer(budget.reserve))
  end
end

local function mark_unread(id)
  local key = root .. 'budget:' .. id
  if redis.call('EXISTS', key) == 1 then redis.call('HSET', key, 'read', '0', 'fence', next_fence()) end
end

-- Gives back what an owner holds. Whether its requests were billed is known to the ledger only, so their budgets are read again.
local function end_owner(owner)
  local key = root .. 'held:' .. owner
  local held = redis.call('HGETALL', key)
  for index = 2, #held, 2 do
    local admission = cjson.decode(held[index])
    for _, id in ipairs(admission.c) do add_running(id, -1) end
    for _, budget in ipairs(admission.b) do add_reserved(budget[1], -budget[2]) end
    for _, id in ipairs(admission.x) do mark_unread(id) end
  end
  redis.call('DEL', key)
  redis.call('ZREM', root .. 'owners', owner)
end

local function end_expired_owners()
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', root .. 'owners', '-inf', integer(now))) do end_owner(owner) end
end
