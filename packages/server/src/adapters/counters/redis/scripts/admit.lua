-- owner, lease, admission, what it holds, amount and buckets of requests, amount and buckets of tokens, concurrency, budgets
-- Returns {-1}: lost. {0, index, fence, …}: budgets to be read. {1, …} admitted or {2, …} refused: number of owners, levels of buckets,
-- counts of running requests, spent and reserved of each budget.
if is_lost() then return { -1 } end
local owner, lease_ms, id, held = argument(), number(), argument(), argument()
extend_lease(owner, lease_ms)
end_expired_owners()

local admitted = true
local buckets = {}
for _ = 1, 2 do
  local amount = number()
  for _ = 1, number() do
    local bucket = { id = argument(), per_minute = number(), amount = amount }
    bucket.level, bucket.updated = level_of(bucket.id, bucket.per_minute)
    -- More than the whole bucket is admitted when it is full, and leaves a debt.
    local needed = math.min(amount, math.max(1, bucket.per_minute))
    if bucket.level < needed * PARTS then admitted = false end
    buckets[#buckets + 1] = bucket
  end
end

local counters = {}
for _ = 1, number() do
  local counter, limit = { id = argument() }, number()
  counter.count = tonumber(redis.call('HGET', root .. 'running', counter.id) or 0)
  if limit >= 0 and counter.count >= limit then admitted = false end
  counters[#counters + 1] = counter
end

local budgets, unread = {}, { 0 }
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
    if budget.spent >= limit or budget.spent + budget.reserved + budget.reserve > limit then admitted = false end
  end
  budgets[index] = budget
end
if #unread > 1 then return unread end

if admitted then
  for _, bucket in ipairs(buckets) do
    bucket.level = bucket.level - bucket.amount * PARTS
    set_level(bucket.id, bucket.per_minute, bucket.level, bucket.updated)
  end
  for _, counter in ipairs(counters) do add_running(counter.id, 1) end
  for _, budget in ipairs(budgets) do
    budget.reserved = redis.call('HINCRBY', budget.key, 'reserved', integer(budget.reserve))
  end
  redis.call('HSET', root .. 'held:' .. owner, id, held)
end

local answer = { admitted and 1 or 2, redis.call('ZCARD', root .. 'owners') }
for _, bucket in ipairs(buckets) do answer[#answer + 1] = bucket.level end
for _, counter in ipairs(counters) do answer[#answer + 1] = counter.count end
for _, budget in ipairs(budgets) do
  answer[#answer + 1] = budget.spent
  answer[#answer + 1] = budget.reserved
end
return answer
