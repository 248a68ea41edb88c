-- Runs busted in this interpreter; its arguments are busted's, defaults in .busted.
arg[0] = "busted"
table.insert(arg, 1, "--output=scripts/totals.lua")
require("busted.runner")({ standalone = false })
