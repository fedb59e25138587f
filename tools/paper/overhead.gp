# table2.png of tools/paper.sh: overhead of BSR over the block size; crosses are the paper's cells.
#     gnuplot -e "name='table2'" overhead.gp
set datafile separator ','
set terminal pngcairo size 800,480 font 'sans,12' noenhanced
set output name.'.png'
set title 'BSR of 196 x 384: bytes over 1 - s of the dense ones'
set xlabel 'block size'
set ylabel '% of dense'
set logscale xy
set grid lc rgb '#dddddd'
set key outside right
levels = '0 0.2 0.4 0.6 0.8 1'
row(s) = "< awk -F, '$2 == ".s." && $3 > 0' ".name.'.csv'
plot for [i=1:6] row(word(levels, i)) using 1:3 with linespoints lw 2 pt 7 ps 0.7 lc i title 's = '.word(levels, i), \
    name.'.csv' every ::1 using 1:4 with points pt 2 ps 1.4 lc rgb 'black' title 'paper'
