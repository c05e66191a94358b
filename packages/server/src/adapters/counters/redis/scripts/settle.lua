-- owner, admission, tokens to correct, buckets of tokens, concurrency, budgets with their reservations, charge, charged budgets
-- Returns {1} when the admission was held, {0} when its lease was over, {-1}: lost.
if is_lost() then return { -1 } end
local owner, id, tokens = argument(), argument(), number()
local is_held = redis.call('HDEL', root .. 'held:' .. owner, id) == 1

for _ = 1, number() do
  local bucket, per_minute = argument(), number()
  if is_held and tokens ~= 0 then
    local level, updated = level_of(bucket, per_minute)
    set_level(bucket, per_minute, math.min(per_minute * PARTS, level - tokens * PARTS), updated)
  end
end
for _ = 1, number() do
  local counter = argument()
  if is_held then add_running(counter, -1) end
end
for _ = 1, number() do
  local budget, reserved = argument(), number()
  if is_held then add_reserved(budget, -reserved) end
end
local nano_usd = argument()
for _ = 1, number() do
  local budget = argument()
  local key = root .. 'budget:' .. budget
  if is_held and redis.call('HGET', key, 'read') == '1' then
    redis.call('HINCRBY', key, 'spent', nano_usd)
  else
    -- A read of the ledger may or may not include this charge.
    mark_unread(budget)
  end
end
return { is_held and 1 or 0 }
