-- Gives up slots of limited queues whose jobs' attempts have ended, and lets the next in.
-- KEYS 1 ready stream   2 scheduled set   3 epoch; the other keys have the same hash tag, and are named from the prefix
-- ARGV 1 to 3 as in queues.lua   4 now in ms   then for each slot: token, job id
-- Returns how many were let in.
for at = 5, #ARGV, 2 do
  redis.call('ZREM', prefix .. 'slots:' .. ARGV[at], ARGV[at + 1])
  if redis.call('ZREM', prefix .. 'asleep', ARGV[at]) == 1 and redis.call('EXISTS', prefix .. 'waiting:' .. ARGV[at]) == 1 then
    join(ARGV[at])
  end
end
return admit(tonumber(ARGV[4]))
