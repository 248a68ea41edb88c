-- busted's plain output, and the totals in the file that $LODE_TOTALS names, for
-- scripts/check to print and to judge.
return function(options)
  local busted = require("busted")
  local handler = require("busted.outputHandlers.plainTerminal")(options)

  -- With suppress-pending the handler does not count them.
  local skipped = 0
  busted.subscribe({ "test", "end" }, function(_, _, status)
    if status == "pending" then skipped = skipped + 1 end
    return nil, true
  end)

  busted.subscribe({ "exit" }, function()
    local file = os.getenv("LODE_TOTALS")
    local out = file and io.open(file, "w")
    if out then
      out:write(("%d %d %d\n"):format(handler.successesCount, handler.failuresCount + handler.errorsCount,
        skipped))
      out:close()
    end
    return nil, true
  end)

  return handler
end
