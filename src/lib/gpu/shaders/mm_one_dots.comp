#version 460
#extension GL_GOOGLE_include_directive : require
#define DOTS
#include "mm_one.glsl"
