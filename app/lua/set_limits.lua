-- Takes over the limits of queues as PostgreSQL has them, and wakes each queue whose limits are others now.
-- KEYS 1 ready stream   2 scheduled set   3 epoch; the other keys have the same hash tag, and are named from the prefix
-- ARGV 1 to 3 as in queues.lua   4 now in ms   5 "1": these are all limited queues, what else is known is forgotten   then for each: token, limits or ""
-- Returns how many were let in.
local key, given = prefix .. 'limits', {}
local function wake(token)
  redis.call('HDEL', prefix .. 'rates', token)
  redis.call('ZREM', prefix .. 'asleep', token)
  if redis.call('EXISTS', prefix .. 'waiting:' .. token) == 1 then join(token) end
end
for at = 6, #ARGV, 2 do
  local token, limits = ARGV[at], ARGV[at + 1]
  given[token] = true
  if (redis.call('HGET', key, token) or '') ~= limits then
    if limits == '' then redis.call('HDEL', key, token) else redis.call('HSET', key, token, limits) end
    wake(token)
  end
end
if ARGV[5] == '1' then
  for _, token in ipairs(redis.call('HKEYS', key)) do
    if not given[token] then
      redis.call('HDEL', key, token)
      wake(token)
    end
  end
end
return admit(tonumber(ARGV[4]))
