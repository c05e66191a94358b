-- owner, lease, admission, what it holds, amount and buckets of requests, amount and buckets of tokens, concurrency, budgets
-- Returns {-1}: lost. {0, index, fence, …}: budgets to be read. {1, …} admitted or {2, …} refused: number of owners, levels of buckets,
-- counts of running requests, spent and reserved of each budget.
if is_lost() then return { -1 } end
local owner, lease_ms, id, held = argument(), number(), argument(), argument()
extend_lease(owner, lease_ms)
end_expired_owners()

local buckets = {}
local has_requests, has_tokens = read_buckets(buckets), read_buckets(buckets)
local admitted = has_requests and has_tokens

local counters = {}
for _ = 1, number() do
  local counter, limit = { id = argument() }, number()
  counter.count = tonumber(redis.call('HGET', root .. 'running', counter.id) or 0)
  if limit >= 0 and counter.count >= limit then admitted = false end
  counters[#counters + 1] = counter
end

local budgets, unread = {}, { 0 }
if not read_budgets(budgets, unread) then admitted = false end
if #unread > 1 then return unread end

if admitted then
  take_from(buckets)
  for _, counter in ipairs(counters) do add_running(counter.id, 1) end
  reserve(budgets)
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
