# Which Lua lode is built for, where its headers are, and how scripts are run.
#
# LUA is a name (luajit, lua5.1, lua5.3, lua5.4) or the path of an interpreter,
# as LuaRocks gives it. LUA_INCDIR is looked for where it is not given.

LUA      ?= luajit
LUA_NAME := $(notdir $(LUA))

# Names that packages use; any other needs a path, or LUA_INCDIR.
LUAS      := luajit lua5.1 lua5.2 lua5.3 lua5.4
LUA_NAMES := $(LUAS) $(subst lua5,lua-5,$(LUAS)) $(subst .,,$(LUAS)) luajit-% lua
comma := ,
ifeq ($(filter $(LUA_NAMES),$(LUA))$(findstring /,$(LUA))$(LUA_INCDIR)$(filter help clean,$(GOALS)),)
space := $(subst ,, )
$(error lode builds for $(subst $(space),$(comma) ,$(LUAS)), not for LUA=$(LUA))
endif

# "#!" needs a path; a bare name is found by env.
LUA_SHEBANG := $(if $(findstring /,$(LUA)),$(LUA),/usr/bin/env $(LUA))

ifneq ($(BUILDING),)
ifeq ($(LUA_INCDIR),)
# lua5.4 is known to pkg-config as lua5.4, lua-5.4 or lua54.
LUA_PC     := $(LUA_NAME) $(subst lua5,lua-5,$(LUA_NAME)) $(subst .,,$(LUA_NAME))
LUA_PLACES := $(patsubst -I%,%,$(foreach pc,$(LUA_PC),$(shell pkg-config --cflags-only-I $(pc) 2>/dev/null)))
LUA_PLACES += $(foreach prefix,/usr /usr/local /opt/homebrew,$(prefix)/include/$(LUA_NAME) \
                $(if $(filter luajit,$(LUA_NAME)),$(prefix)/include/luajit-2.1) \
                $(prefix)/include/$(subst lua5,lua-5,$(LUA_NAME)) $(prefix)/include/$(subst .,,$(LUA_NAME)))
LUA_PLACES += $(if $(filter lua,$(LUA_NAME)),/usr/include /usr/local/include)
LUA_INCDIR := $(patsubst %/lua.h,%,$(firstword $(wildcard $(addsuffix /lua.h,$(LUA_PLACES)))))
endif
ifeq ($(wildcard $(LUA_INCDIR)/lua.h),)
$(error lua.h for LUA=$(LUA) was not found$(if $(LUA_INCDIR), in LUA_INCDIR=$(LUA_INCDIR)): run "make deps LUA=$(LUA_NAME)", or give LUA_INCDIR=)
endif
endif

RUN_LUA_PATH  = $(ROOT)/lua/?.lua;$(ROOT)/lua/?/init.lua;;
RUN_LUA_CPATH = $(ROOT)/$(BUILD)/$(LUA_NAME)/?.so;;

# The interpreter with lode from this checkout. Paths for one Lua version (LUA_PATH_5_4)
# would win over LUA_PATH, so they are taken away.
RUN = env -u LUA_PATH_5_2 -u LUA_CPATH_5_2 -u LUA_PATH_5_3 -u LUA_CPATH_5_3 -u LUA_PATH_5_4 -u LUA_CPATH_5_4 \
      "LUA_PATH=$(RUN_LUA_PATH)" "LUA_CPATH=$(RUN_LUA_CPATH)" $(EMULATOR_ENV) $(SAN_ENV) $(LUA)
