-- After a batch was claimed: what waits on goes back, slots are given up, the entries are acknowledged and deleted (C4), and
-- others are let in.
-- KEYS 1 ready stream   2 scheduled set   3 epoch; the other keys have the same hash tag, and are named from the prefix
-- ARGV 1 to 3 as in queues.lua   4 now in ms   5 consumer group   6 what to do, as JSON:
--   put_back   [[member, score], …] into the scheduled set: locked, or not due yet
--   refused    [[member, run_at in ms], …] back into their queues, whose limits hold them
--   give_up    [[token, job id], …] slots of what was dropped, refused, or needs none any more
--   rates      [[token, jobs that may start now, ms when more may], …] as the claim found them
--   asleep     [[token, ms], …] queues that are full: to look at again then, unless something wakes them before
--   entries    [entry id, …]
-- Returns how many were let in.
local now, group, what = tonumber(ARGV[4]), ARGV[5], cjson.decode(ARGV[6])
for _, job in ipairs(what.put_back) do redis.call('ZADD', scheduled, job[2], job[1]) end
-- What was let in and needs no slot leaves it, and its share of the rate, to the next; what the claim found of the queue comes after.
for _, slot in ipairs(what.give_up) do
  redis.call('ZREM', prefix .. 'slots:' .. slot[1], slot[2])
  redis.call('HDEL', prefix .. 'rates', slot[1])
  if redis.call('ZREM', prefix .. 'asleep', slot[1]) == 1 and redis.call('EXISTS', prefix .. 'waiting:' .. slot[1]) == 1 then
    join(slot[1])
  end
end
for _, rate in ipairs(what.rates) do
  redis.call('HSET', prefix .. 'rates', rate[1], string.format('%.0f:%.0f', rate[2], rate[3]))
  if rate[2] > 0 then
    redis.call('ZREM', prefix .. 'asleep', rate[1])
    if redis.call('EXISTS', prefix .. 'waiting:' .. rate[1]) == 1 then join(rate[1]) end
  else
    leave(rate[1])
    redis.call('ZADD', prefix .. 'asleep', rate[3], rate[1])
  end
end
for _, rest in ipairs(what.asleep) do
  leave(rest[1])
  redis.call('ZADD', prefix .. 'asleep', rest[2], rest[1])
end
for _, job in ipairs(what.refused) do
  local token, priority = string.match(job[1], ':(%d+:%d+):(%d)$')
  wait_in_queue(token, tonumber(priority), job[1], job[2])
end
for _, entry in ipairs(what.entries) do
  redis.call('XACK', ready, group, entry)
  redis.call('XDEL', ready, entry)
end
return admit(now)
