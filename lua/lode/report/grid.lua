-- Text tables with aligned columns.

local grid = {}

-- Width on a terminal: characters of UTF-8 text, not bytes.
local function width(text)
  return #text:gsub("[\128-\191]", "")
end

local function pad(text, columns, right)
  local space = (" "):rep(columns - width(text))
  return right and space .. text or text .. space
end

-- rows: { { text, ... }, ... }. The first column is flush left and the others
-- flush right. Returns the lines, each starting with `indent`.
function grid.lines(rows, indent)
  local widths = {}
  for _, row in ipairs(rows) do
    for column, text in ipairs(row) do
      widths[column] = math.max(widths[column] or 0, width(text))
    end
  end
  local lines = {}
  for i, row in ipairs(rows) do
    local cells = {}
    for column, text in ipairs(row) do
      cells[column] = pad(text, widths[column], column > 1)
    end
    lines[i] = ((indent or "") .. table.concat(cells, "  ")):gsub("%s+$", "")
  end
  return lines
end

function grid.print(rows, indent)
  print(table.concat(grid.lines(rows, indent), "\n"))
end

return grid
