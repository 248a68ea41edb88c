-- What the build promises: loading lode is cheap, and can be done again.

local support = require("spec.support")

describe("require 'lode'", function()
  it("maps no heavy library", function()
    local text = support.child([[
      local lode = require("lode")
      lode.rand({ 3 }):sum():item()
      local maps = io.open("/proc/self/maps")
      io.write(maps and maps:read("*a") or "")
    ]])
    if not text:find("lode/core.so", 1, true) then return pending("no /proc") end
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
