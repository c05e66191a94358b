-- owner, admission, what it holds then, amount and buckets of tokens, budgets with what to add to their reservations
-- Returns {-1}: lost. {0, index, fence, …}: budgets to be read. {1}: extended. {2, …} refused: levels of buckets, spent and reserved of each
-- budget. An admission that is not held, because the lease of its owner is over, is refused.
if is_lost() then return { -1 } end
local owner, id, held = argument(), argument(), argument()
local buckets, budgets, unread = {}, {}, { 0 }
local has_tokens, has_budget = read_buckets(buckets), read_budgets(budgets, unread)
if #unread > 1 then return unread end

if has_tokens and has_budget and redis.call('HEXISTS', root .. 'held:' .. owner, id) == 1 then
  take_from(buckets)
  reserve(budgets)
  redis.call('HSET', root .. 'held:' .. owner, id, held)
  return { 1 }
end

local answer = { 2 }
for _, bucket in ipairs(buckets) do answer[#answer + 1] = bucket.level end
for _, budget in ipairs(budgets) do
  answer[#answer + 1] = budget.spent
  answer[#answer + 1] = budget.reserved
end
return answer
