-- What lode's command line and recipes print: units, aligned tables, device lines.

local units = require("lode.report.units")
local grid = require("lode.report.grid")
local devices = require("lode.report.devices")

return { units = units, grid = grid, devices = devices }
