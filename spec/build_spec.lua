-- What the build promises: loading lode is cheap, and can be done again.

describe("require 'lode'", function()
  local function loaded_libraries()
    local maps = io.open("/proc/self/maps")
    if not maps then return nil end
    local text = maps:read("*a")
    maps:close()
    return text
  end

  it("maps no heavy library", function()
    require("lode")
    local text = loaded_libraries()
    if not text then return pending("no /proc") end
    for _, name in ipairs({ "libopenblas", "liblapack", "libcuda", "libcudart", "libcublas", "libnvrtc" }) do
      assert.is_nil(text:find(name, 1, true), name .. " is mapped")
    end
  end)

  it("opens again in the same state", function()
    local first = require("lode")
    package.loaded["lode"], package.loaded["lode.core"] = nil, nil
    local second = require("lode")
    assert.equal(first._VERSION, second._VERSION)
  end)
end)
