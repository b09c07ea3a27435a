-- Budgets: what a tenant's jobs may cost in a month (docs/adr/0038-usage.md).
-- @include delivery

-- tell_budget tells once of a budget that is nearly spent, and once of one that is, where so much is spent. about names the tenant, the month and
-- the budget. It answers what tell answers.
local function tell_budget(key, spent, budget, warn_at, about, warning, exceeded, now, expires)
  local made = {}
  for _, e in ipairs({{'budget.warning', warn_at, warning}, {'budget.exceeded', budget, exceeded}}) do
    if budget > 0 and spent >= e[2] and redis.pcall('HSETNX', key, e[3], now) == 1 then
      made[#made + 1] = tell(e[1], nil, nil, e[3], now, 'budget', about .. ' ' .. string.format('%.0f', spent), 'expires', string.format('%.0f', expires))
    end
  end
  return table.concat(made, ',')
end
